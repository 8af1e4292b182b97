// dl::spawn() in whole programs: a program starts itself as ranks, and learns how they ended.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/system/process/process_stat.h"
#include "core/base/system/unique_fd.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using tests::Process;
using tests::program;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Ended {
  int code;
  std::string out;
  std::string err;
};

// With nothing left behind.
Ended end_of(const std::vector<std::string>& argv,
             const std::vector<std::string>& environment = {}) {
  Process process(argv, {.environment = environment});
  const int code = process.wait();
  EXPECT_THAT(tests::processes_with(process.mark()), ElementsAre());
  return {code, process.out(), process.err()};
}

Ended end_of_probe(const std::string& what) {
  return end_of({program("spawn_probe"), what, "word"});
}

TEST(Spawn, RunsItsFunctionOnEveryRankAndGoesOn) {
  const Ended ended = end_of_probe("sum");
  EXPECT_EQ(ended.code, 0) << ended.err;
  std::vector<std::string> lines = lines_of(ended.out);
  ASSERT_EQ(lines.size(), 10U) << ended.out;
  EXPECT_EQ(lines.front(), "first word");
  EXPECT_EQ(lines.back(), "last");
  const auto between = std::ranges::find(lines, "between");
  EXPECT_THAT(std::vector<std::string>(lines.begin() + 1, between),
              UnorderedElementsAre("word 0 sum 6", "word 1 sum 6", "word 2 sum 6"));
  // In ranks of the second call the first one returns at once, so they print "between", too.
  EXPECT_THAT(std::vector<std::string>(between + 1, lines.end() - 1),
              UnorderedElementsAre("between", "between", "second 0 true", "second 1 true"));
}

TEST(Spawn, ReturnsWhatTheFunctionReturnedOnEachRank) {
  const Ended ended = end_of_probe("results");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "true\ntrue\ntrue\n");
}

TEST(Spawn, ThrowsWhatTheFirstFailedRankThrew) {
  const Ended ended = end_of_probe("throw");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("caught rank 1 exit code 1 peer failed: spawn: rank 1 "),
                               HasSubstr("ended with exit code 1"),
                               HasSubstr(": no such data set\n"), HasSubstr("the others: ")));
  // What the exception says is not said a second time.
  EXPECT_THAT(ended.err, Not(HasSubstr("no such data set")));
}

TEST(Spawn, NeedsNoMoreOpenFilesThanDlrun) {
  const Ended ended =
      end_of({"sh", "-c", "ulimit -Sn 64; exec " + program("spawn_probe") + " sum word"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("word 0 sum 6\n"));
}

TEST(Spawn, NamesHowARankDied) {
  EXPECT_THAT(end_of_probe("kill").out, AllOf(HasSubstr("caught rank 1 exit code 137 "),
                                              HasSubstr("was killed by signal 9 (SIGKILL)")));
  EXPECT_THAT(end_of_probe("exit").out,
              AllOf(HasSubstr("caught rank 1 exit code 5 "), HasSubstr("ended with exit code 5")));
  EXPECT_THAT(end_of_probe("throw-number").out,
              AllOf(HasSubstr("caught rank 1 exit code 1 "),
                    HasSubstr("int, an exception that is no std::exception")));
}

TEST(Spawn, SaysWhichExceptionHadNoText) {
  EXPECT_THAT(end_of_probe("throw-empty").out,
              HasSubstr(" s: std::out_of_range with an empty text\n"));
}

TEST(Spawn, BeginsWithTheFirstLineOfAnExceptionsText) {
  EXPECT_THAT(end_of_probe("throw-lines").out,
              AllOf(HasSubstr(" s: no \"data\" set\n"), HasSubstr("in C:\\a\\x1b\n"),
                    HasSubstr("| last of them\n")));
}

TEST(Spawn, AnUncaughtErrorEndsTheProgramWithItsText) {
  const Ended ended = end_of_probe("uncaught");
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("error: spawn: rank 0 "), HasSubstr(": no such data set")));
}

TEST(Spawn, NamesTheSignalThatKilledDlrun) {
  Process process({program("spawn_probe"), "wait"});
  ASSERT_TRUE(process.wait_for_out("up 0\n")) << process.err();
  ASSERT_TRUE(process.wait_for_out("up 1\n")) << process.err();
  for (const pid_t pid : tests::processes_with(process.mark())) {
    const bool is_child = read_stat("/proc/" + std::to_string(pid)).parent == process.pid();
    if (is_child) ::kill(pid, SIGKILL);
  }
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("error: spawn: dlrun was killed by signal 9 (SIGKILL)\n"));
}

TEST(Spawn, RefusesWhatCannotWork) {
  EXPECT_THAT(end_of_probe("not-there").err,
              HasSubstr("spawn: rank 0 ended without coming to this call, number 1"));
  EXPECT_THAT(end_of_probe("nested").err, HasSubstr("inside of a function that spawn runs"));
  EXPECT_THAT(end_of_probe("none").err, HasSubstr("nprocs is 0, wanted at least 1"));
  const Ended in_job = end_of({program("dlrun"), "-n", "2", program("spawn_probe"), "plain"});
  EXPECT_EQ(in_job.code, 1);
  EXPECT_THAT(in_job.err, HasSubstr("already, as RANK and WORLD_SIZE says"));
}

TEST(Spawn, FindsDlrunInPathAndSaysIfThereIsNone) {
  const tests::TempDir folder;
  const std::string copy = folder.path() + "/program";
  std::filesystem::copy(program("spawn_probe"), copy);
  const Ended without = end_of({copy, "plain"}, {"PATH=/nonexistent"});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.err,
              HasSubstr("there is no dlrun in " + folder.path() + " or in PATH; put it beside"));
  const std::string bin = std::filesystem::path(program("dlrun")).parent_path();
  const Ended with = end_of({copy, "plain"}, {"PATH=/nonexistent:" + bin});
  EXPECT_EQ(with.code, 0) << with.err;
  EXPECT_THAT(lines_of(with.out), UnorderedElementsAre("rank 0", "rank 1"));
}

TEST(Spawn, TakesAFileDlrunBesideAProgramWhoseFolderHasAColon) {
  const tests::TempDir folder;
  const std::string beside = folder.path() + "/a:b";
  std::filesystem::create_directory(beside);
  const std::string copy = beside + "/program";
  std::filesystem::copy(program("spawn_probe"), copy);
  const std::string bin = std::filesystem::path(program("dlrun")).parent_path();
  // A folder of that name is passed over; execve() would refuse it.
  std::filesystem::create_directory(beside + "/dlrun");
  const Ended elsewhere = end_of({copy, "plain"}, {"PATH=" + bin});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  std::filesystem::remove(beside + "/dlrun");
  std::filesystem::create_symlink(program("dlrun"), beside + "/dlrun");
  const Ended here = end_of({copy, "plain"}, {"PATH=/nonexistent"});
  EXPECT_EQ(here.code, 0) << here.err;
}

TEST(Spawn, RanksEndWithTheProgramThatSpawnedThem) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    Process process({program("spawn_probe"), "wait"});
    ASSERT_TRUE(process.wait_for_out("up 0\n")) << process.err();
    ASSERT_TRUE(process.wait_for_out("up 1\n")) << process.err();
    process.signal(signal);
    EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(process.mark()).empty(); }));
    EXPECT_EQ(process.wait(), 128 + signal);
  }
}

TEST(Spawn, WhatEndsTheRanksFromTheKeyboardEndsTheProgram) {
  for (const int signal : {SIGINT, SIGQUIT}) {
    Process process({program("spawn_probe"), "wait"});
    ASSERT_TRUE(process.wait_for_out("up 0\n")) << process.err();
    ASSERT_TRUE(process.wait_for_out("up 1\n")) << process.err();
    for (const pid_t pid : tests::processes_with(process.mark())) {
      // The terminal sends it to every process of its foreground group.
      if (pid == process.pid() || tests::name_of(pid) == "dlrun") ::kill(pid, signal);
    }
    EXPECT_EQ(process.wait(), 128 + signal) << process.err();
    EXPECT_THAT(process.err(), Not(HasSubstr("error: spawn")));
  }
}

TEST(Spawn, GivesItsReportToNoProgramOfAnotherThread) {
  int input[2];
  ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
  const UniqueFd from(input[0]);
  UniqueFd to(input[1]);
  Process process({program("spawn_probe"), "descriptors"}, {.stdin_fd = from.get()});
  EXPECT_TRUE(process.wait_for_out("listed\n")) << process.err();
  to.reset();
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.out(), AllOf(HasSubstr("/proc/"), Not(HasSubstr("dlrun-spawn"))));
}

TEST(Spawn, NoHandlerOfTheProgramRunsBetweenForkAndExec) {
  EXPECT_THAT(end_of_probe("handlers").out, testing::StartsWith("handlers 0 ignored 1\n"));
}

}  // namespace
}  // namespace dl
