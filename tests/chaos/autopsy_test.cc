// A job's flight recorders tell which rank stopped it: after SIGKILL, a mismatch, a deadline, and
// while the job still hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "collectives/record/format.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

constexpr const char* kFile = "flight.rec";

// Three ranks of stuck_probe, and what their dlrun leaves behind.
class Autopsy : public testing::Test {
 protected:
  std::vector<std::string> job(const std::vector<std::string>& arguments, int ranks = 3) const {
    std::vector<std::string> argv = {tests::program("dlrun"),
                                     "--nproc-per-node",
                                     std::to_string(ranks),
                                     "--log-dir",
                                     log_.path(),
                                     tests::program("../tests/stuck_probe")};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return argv;
  }
  std::string file(int rank) const {
    return log_.path() + "/latest/attempt_0/" + std::to_string(rank) + "/" + kFile;
  }
  std::string autopsy() const {
    tests::Process reader({tests::program("dlrun"), "autopsy", log_.path()});
    EXPECT_EQ(reader.wait(), 0) << reader.err();
    return reader.out();
  }
  nlohmann::json report() const {
    tests::Process reader({tests::program("dlrun"), "autopsy", "--json", log_.path()});
    EXPECT_EQ(reader.wait(), 0) << reader.err();
    return nlohmann::json::parse(reader.out());
  }
  nlohmann::json finding() const { return report().at("finding"); }
  static pid_t pid_of(const tests::Process& job, int rank) {
    const std::string wanted = "RANK=" + std::to_string(rank);
    for (const pid_t pid : tests::processes_with(job.mark())) {
      std::ifstream environment("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
      for (std::string entry; std::getline(environment, entry, '\0');) {
        if (entry == wanted) return pid;
      }
    }
    ADD_FAILURE() << "rank " << rank << " does not run";
    return -1;
  }

  tests::TempDir log_;
};

TEST_F(Autopsy, NamesTheRankThatWasKilledInsideAnAllReduce) {
  tests::Process run(job({"loop"}));
  ASSERT_TRUE(run.wait_for_out("round 20\n")) << run.err();
  const pid_t victim = pid_of(run, 1);
  ::kill(victim, SIGKILL);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_THAT(run.err(), HasSubstr("dlrun autopsy " + log_.path()));
  const std::string page = autopsy();
  EXPECT_THAT(page.substr(0, page.find('\n')), HasSubstr("pid " + std::to_string(victim) + ")"));
  EXPECT_EQ(page.find("rank 1 ("), 0u) << page;
  EXPECT_THAT(page, HasSubstr("was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(page, HasSubstr("f32[250000] sum"));
  // One truth: what the job's page has said of the other ranks.
  const std::string others = "  the others: ";
  const std::size_t line = run.err().find(others);
  ASSERT_NE(line, std::string::npos) << run.err();
  const nlohmann::json ranks = report().at("ranks");
  ASSERT_EQ(ranks.size(), 3u);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(run.err().substr(line, run.err().find('\n', line) - line),
                HasSubstr(ranks[static_cast<std::size_t>(rank)].at("fate").get<std::string>()));
  }
  EXPECT_EQ(ranks[1].at("fate"), "was killed by signal 9 (SIGKILL)");
  const nlohmann::json found = finding();
  EXPECT_EQ(found.at("kind"), "died");
  EXPECT_EQ(found.at("ranks"), nlohmann::json({1}));
}

TEST_F(Autopsy, ShowsBothSidesOfAMismatch) {
  tests::Process run(job({"mismatch"}, 2));
  EXPECT_NE(run.wait(), 0);
  const std::string page = autopsy();
  EXPECT_THAT(page, HasSubstr("called different things under number"));
  EXPECT_THAT(page, HasSubstr("rank 0 called all_reduce"));
  EXPECT_THAT(page, HasSubstr("(f32[250000] sum)"));
  EXPECT_THAT(page, HasSubstr("rank 1 called all_reduce"));
  EXPECT_THAT(page, HasSubstr("(f32[249999] sum)"));
  EXPECT_EQ(finding().at("kind"), "mismatch");
}

TEST_F(Autopsy, OfAJobThatHangsNamesTheStoppedRankOnRequest) {
  tests::Process run(job({"loop", "300"}));  // seconds to its deadline, far beyond the test's end
  ASSERT_TRUE(run.wait_for_out("round 20\n")) << run.err();
  const pid_t victim = pid_of(run, 2);
  ::kill(victim, SIGSTOP);
  // A signal takes a moment to stop a process, and the other ranks take a moment to wait for it.
  // dlrun answers once all files are written. So ask until the answer is complete.
  const std::string cure = "`kill -CONT " + std::to_string(victim) + "`";
  const bool named = tests::eventually([&] {
    fs::remove(file(2));
    run.signal(SIGUSR1);
    const bool written = tests::eventually(20s, [&] {
      std::error_code error;
      return fs::file_size(file(2), error) == collectives::record::kBytes;
    });
    if (!written) return false;
    const std::string page = autopsy();
    return page.find(" is stopped, ") != std::string::npos &&
           page.find(" waited for it in all_reduce") != std::string::npos &&
           run.err().find(cure) != std::string::npos;
  });
  ASSERT_TRUE(named) << run.err();
  EXPECT_EQ(autopsy().find("rank 2 ("), 0u) << autopsy();
  const nlohmann::json found = finding();
  EXPECT_EQ(found.at("kind"), "stopped");
  EXPECT_EQ(found.at("ranks"), nlohmann::json({2}));
  EXPECT_FALSE(run.has_ended()) << "a question ends no job";
}

TEST_F(Autopsy, NamesTheRankThatAllWaitedForAtTheDeadline) {
  tests::Process run(job({"loop", "10"}));
  ASSERT_TRUE(run.wait_for_out("round 20\n")) << run.err();
  ::kill(pid_of(run, 2), SIGSTOP);
  EXPECT_NE(run.wait(90s), 0);
  const std::string page = autopsy();
  EXPECT_EQ(page.find("rank 2 ("), 0u) << page;
  EXPECT_THAT(page, HasSubstr("waited for it in all_reduce"));
  EXPECT_THAT(page, HasSubstr("the first error, on rank "));
}

TEST_F(Autopsy, LeavesNothingIfNothingFailed) {
  tests::Process run({tests::program("dlrun"), "--log-dir", log_.path(), "true"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_FALSE(fs::exists(file(0)));
  // Nor of a program that has no collectives.
  tests::Process failing({tests::program("dlrun"), "--log-dir", log_.path(), "false"});
  EXPECT_EQ(failing.wait(), 1);
  EXPECT_FALSE(fs::exists(file(0)));
  EXPECT_THAT(failing.err(), Not(HasSubstr("autopsy")));
}

TEST_F(Autopsy, LooksAtTheLastRunAndKeepsTheOneBefore) {
  tests::Process before(job({"mismatch"}, 2));
  EXPECT_NE(before.wait(), 0);
  const fs::path old = fs::canonical(log_.path() + "/latest");
  tests::Process run({tests::program("dlrun"), "--log-dir", log_.path(), "true"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_FALSE(fs::exists(file(0)));
  tests::Process last({tests::program("dlrun"), "autopsy", log_.path()});
  EXPECT_EQ(last.wait(), 1);
  EXPECT_THAT(last.err(), HasSubstr("it holds no RANK/"));
  // One run can be named, and so can one attempt.
  for (const fs::path& path : {old, old / "attempt_0"}) {
    tests::Process reader({tests::program("dlrun"), "autopsy", path});
    EXPECT_EQ(reader.wait(), 0) << reader.err();
    EXPECT_THAT(reader.out(), HasSubstr("called different things under number"));
  }
}

TEST_F(Autopsy, CanBeSwitchedOff) {
  tests::Process run(job({"mismatch"}, 2), {.environment = {"DLRUN_RECORDER=off"}});
  EXPECT_NE(run.wait(), 0);
  EXPECT_FALSE(fs::exists(file(0)));
  EXPECT_THAT(run.err(), Not(HasSubstr("autopsy")));
}

TEST_F(Autopsy, WithoutDlrunIsWrittenWhereTheEnvironmentSays) {
  const tests::TempDir meeting;
  const auto options = [&](int rank) {
    return tests::Process::Options{.environment = {"DLRUN_RECORDER_DIR=" + log_.path(),
                                                   "RANK=" + std::to_string(rank), "WORLD_SIZE=2"}};
  };
  const std::vector<std::string> argv = {tests::program("../tests/stuck_probe"), "mismatch", "60",
                                         "file://" + meeting.path() + "/meet"};
  tests::Process rank0(argv, options(0));
  tests::Process rank1(argv, options(1));
  EXPECT_NE(rank0.wait(), 0);
  EXPECT_NE(rank1.wait(), 0);
  EXPECT_EQ(finding().at("kind"), "mismatch");
}

TEST_F(Autopsy, RefusesWhatItCannotRead) {
  tests::Process nothing({tests::program("dlrun"), "autopsy", log_.path() + "/nowhere"});
  EXPECT_EQ(nothing.wait(), 1);
  EXPECT_THAT(nothing.err(), HasSubstr("No such file or directory"));
  tests::Process usage({tests::program("dlrun"), "autopsy"});
  EXPECT_EQ(usage.wait(), 2);
  tests::Process help({tests::program("dlrun"), "autopsy", "--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_THAT(help.out(), HasSubstr("Usage: dlrun autopsy"));
}

TEST(AutopsyOnRequest, ShowsKernelStateOfAProgramWithoutARecorder) {
  for (const char* recorder : {"on", "off"}) {
    tests::Process run(
        {tests::program("dlrun"), "--nproc-per-node", "2", "sh", "-c",
         "echo ready $$; sleep 300; true"},
        tests::Process::Options{.environment = {std::string("DLRUN_RECORDER=") + recorder}});
    ASSERT_TRUE(run.wait_for_out("[rank 0] ready ") && run.wait_for_out("[rank 1] ready "));
    const std::string rank =
        "sh:" + std::to_string(tests::number_after("[rank 1] ready ", run.out()));
    // Asked until `sleep` sleeps, as it may still be starting; a rank may be heard of before the
    // supervisor's word that it is started.
    EXPECT_TRUE(tests::eventually([&] {
      run.signal(SIGUSR1);
      return run.wait_for_err("sleeps", 1s) && run.wait_for_err(rank + " ", 1s);
    })) << run.err();
    EXPECT_THAT(run.err(),
                HasSubstr(recorder == std::string("on")
                              ? "the program does not use dlrun's collectives, or has not "
                                "come to init yet; the kernel says:"
                              : "DLRUN_RECORDER is off; the kernel says:"));
    EXPECT_THAT(run.err(), HasSubstr("CPU time"));
    EXPECT_THAT(run.err(), HasSubstr("sleeps"));
    EXPECT_THAT(run.err(), Not(HasSubstr("has not called init_process_group")));
    EXPECT_FALSE(run.has_ended());
  }
}

}  // namespace
}  // namespace dl
