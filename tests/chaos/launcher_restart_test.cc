// Restarts (--max-restarts): what fails begins again whole, on one node and on two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/rank_input.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::read_file;

std::vector<std::string> line_of(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), tests::program("dlrun"));
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

// A dlrun of one of two nodes, which meet on loopback.
class TwoNodes {
 public:
  std::unique_ptr<tests::Process> start(int node, std::vector<std::string> options,
                                        const std::string& script) const {
    options.insert(options.begin(), {"--nnodes", "2", "--node-rank", std::to_string(node),
                                     "--rdzv-endpoint", "127.0.0.1:" + std::to_string(port_)});
    return std::make_unique<tests::Process>(
        line_of(options, script),
        tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home_.path()}});
  }

 private:
  tests::TempDir home_;
  std::uint16_t port_ = tests::free_port();
};

TEST(Restart, OneOfEightRanksThatIsKilledBeginsAllAgain) {
  constexpr const char* kScript =
      "echo rank $RANK of $WORLD_SIZE, attempt $TORCHELASTIC_RESTART_COUNT of "
      "$TORCHELASTIC_MAX_RESTARTS, generation $DLRUN_GENERATION, pid $$; "
      "test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 300";
  tests::Process job(line_of({"--nproc-per-node", "8", "--max-restarts", "2"}, kScript));
  ASSERT_TRUE(tests::eventually([&] { return count(job.out(), "attempt 0 of 2") == 8; }));
  const std::string out = job.out();
  ::kill(tests::number_after("pid ", out.substr(out.find("rank 5 of 8,"))), SIGKILL);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "attempt 1 of 2, generation 1"), 8U) << job.out();
  EXPECT_THAT(job.err(), AllOf(HasSubstr("dlrun: rank 5 (node 0, host "),
                               HasSubstr("was killed by signal 9 (SIGKILL)"),
                               HasSubstr("dlrun: restart 1 of 2: all ranks begin again\n")));
}

TEST(Restart, RankZeroReadsOnWhereTheAttemptBeforeHasStopped) {
  const auto in_shell = [](const std::string& script) {
    return std::make_unique<tests::Process>(std::vector<std::string>{"sh", "-c", script});
  };
  const std::string dlrun = tests::program("dlrun") + " --nproc-per-node 2";
  tests::expect_input_goes_to_rank0(in_shell, dlrun);
  tests::expect_input_may_be_left_unread(in_shell, dlrun);
}

TEST(Restart, EndsWithTheLastFailureOnceTheyAreUsedUp) {
  tests::Process job(line_of({"--nproc-per-node", "2", "--max-restarts", "2"},
                             "test $RANK = 1 && exit $((40 + TORCHELASTIC_RESTART_COUNT)); "
                             "exec sleep 300"));
  EXPECT_EQ(job.wait(), 42);
  EXPECT_THAT(job.err(), AllOf(HasSubstr("exit code 40 "), HasSubstr("exit code 41 "),
                               HasSubstr("restart 2 of 2"), HasSubstr("exit code 42 ")));
}

TEST(Restart, AFailureThatWouldRepeatEndsTheJob) {
  for (const int code : {2, 126, 127}) {
    tests::Process job(line_of({"--max-restarts", "5"}, "exit " + std::to_string(code)));
    EXPECT_EQ(job.wait(), code);
    EXPECT_THAT(job.err(), Not(HasSubstr("restart"))) << code;
  }
  const tests::TempDir folder;
  const std::string program = folder.path() + "/no-interpreter";
  std::ofstream(program) << "#!/nowhere/sh\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  tests::Process job({tests::program("dlrun"), "--max-restarts", "5", program});
  EXPECT_EQ(job.wait(), 127);
  EXPECT_THAT(job.err(), Not(HasSubstr("restart")));
}

TEST(Restart, SweepsTheOldGenerationBeforeTheNextOneStarts) {
  const tests::TempDir folder;
  // The daemon has left its rank's session, is orphaned, and ignores SIGTERM.
  const std::string script = "cd " + folder.path() +
                             "; if test $TORCHELASTIC_RESTART_COUNT = 0; then "
                             "(setsid sh -c 'trap \"\" TERM; echo $$ > pid; mv pid daemon; "
                             "while :; do sleep 300; done' &); "
                             "until test -e daemon; do sleep 0.01; done; kill -9 $$; fi; "
                             "kill -0 $(cat daemon) 2>/dev/null && echo it lives; exit 0";
  tests::Process job(line_of({"--max-restarts", "1"}, script));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("restart 1 of 1"));
  EXPECT_THAT(job.out(), Not(HasSubstr("it lives")));
  EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(job.mark()).empty(); }));
}

TEST(Restart, KeepsLogsOfEachAttemptAndWhatDlrunSaid) {
  const tests::TempDir folder;
  tests::Process job(
      line_of({"--max-restarts", "1", "--nproc-per-node", "2", "--log-dir", folder.path()},
              "echo attempt $TORCHELASTIC_RESTART_COUNT; "
              "exit $((1 - TORCHELASTIC_RESTART_COUNT))"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  const std::string run = folder.path() + "/latest/";
  for (const char* rank : {"0", "1"}) {
    EXPECT_EQ(read_file(run + "attempt_1/" + rank + "/stdout.log"), "attempt 1\n");
  }
  EXPECT_TRUE(std::filesystem::exists(run + "attempt_0/1/stdout.log"));
  EXPECT_THAT(read_file(run + "node_0.log"), HasSubstr("restart 1 of 1: all ranks begin again\n"));
}

TEST(Restart, LeavesNeitherDescriptorsNorProcessesBehind) {
  const tests::Gate gate;
  const tests::TempDir folder;
  constexpr const char* kBegin = "echo attempt $TORCHELASTIC_RESTART_COUNT pid $$; ";
  tests::Process job(
      line_of({"--max-restarts", "2", "--nproc-per-node", "2", "--log-dir", folder.path()},
              kBegin + std::string("exec sleep 300")));
  const auto descriptors = [&] {
    std::size_t open = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(job.pid()) + "/fd")) {
      ++open;
    }
    return open;
  };
  std::vector<std::size_t> seen;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::string begun = "attempt " + std::to_string(attempt) + " pid ";
    ASSERT_TRUE(tests::eventually([&] { return count(job.out(), begun) == 2; })) << job.err();
    // One generation more is kept: handlers of its that wait may still run.
    seen.push_back(descriptors());
    // Two ranks, dlrun, its warden and a supervisor; one that executes has no environment to read.
    EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(job.mark()).size() == 5; }));
    ::kill(tests::number_after(begun, job.out()), SIGKILL);
  }
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(seen[1], seen[2]);
}

TEST(Restart, ResumesAnExampleFromItsCheckpointWithTheSameBits) {
  const tests::TempDir folder;
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> line = {tests::program("dlrun"),
                                     "--nproc-per-node",
                                     "2",
                                     "--max-restarts",
                                     "1",
                                     tests::program("resume"),
                                     "--checkpoint",
                                     folder.path() + "/" + name,
                                     "--steps",
                                     "40",
                                     "--save-every",
                                     "10"};
    line.insert(line.end(), more.begin(), more.end());
    auto job = std::make_unique<tests::Process>(line);
    EXPECT_EQ(job->wait(), 0) << job->err();
    return job;
  };
  run("whole", {});
  const auto broken = run("broken", {"--die-at", "25"});
  EXPECT_THAT(broken->err(), HasSubstr("restart 1 of 1"));
  EXPECT_THAT(broken->out(), HasSubstr("attempt begins at step 20\n"));
  EXPECT_EQ(read_file(folder.path() + "/broken"), read_file(folder.path() + "/whole"));
}

TEST(Restart, AProgramThatIsRemovedMeanwhileIsSaidToBeGone) {
  const tests::TempDir folder;
  const std::string program = folder.path() + "/train";
  std::ofstream(program) << "#!/bin/sh\nrm $0\nexit 1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  tests::Process job({tests::program("dlrun"), "--max-restarts", "1", program});
  EXPECT_EQ(job.wait(), 127);
  EXPECT_THAT(job.err(), HasSubstr("rank 0 could not be started: exec of " + program +
                                   ": No such file or directory: it was there at the start, and "
                                   "is not there now\n"));
}

TEST(Restart, CtrlCEndsAJobThatWaitsToBeginAgain) {
  tests::Process job(line_of({"--max-restarts", "9"}, "exit 1"));
  ASSERT_TRUE(job.wait_for_err("all ranks begin again in 4 s"));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 130);
  EXPECT_THAT(job.err(), HasSubstr("stopped by SIGINT"));
}

TEST(Restart, OnTwoNodesAllBeginAgainTogether) {
  constexpr const char* kScript =
      "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR, attempt $TORCHELASTIC_RESTART_COUNT, pid "
      "$$; test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 300";
  const TwoNodes nodes;
  const std::vector<std::string> options = {"--nproc-per-node", "2", "--max-restarts", "1"};
  const auto zero = nodes.start(0, options, kScript);
  const auto one = nodes.start(1, options, kScript);
  ASSERT_TRUE(tests::eventually([&] {
    return count(zero->out(), "attempt 0") == 2 && count(one->out(), "attempt 0") == 2;
  })) << zero->err()
      << one->err();
  const std::string out = one->out();
  ::kill(tests::number_after("pid ", out.substr(out.find("rank 3 of 4"))), SIGKILL);
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_THAT(rank < 2 ? zero->out() : one->out(),
                HasSubstr("rank " + std::to_string(rank) + " of 4 at 127.0.0.1, attempt 1, "));
  }
  for (const auto* node : {zero.get(), one.get()}) {
    EXPECT_THAT(node->err(), AllOf(HasSubstr("dlrun: rank 3 (node 1, host "),
                                   HasSubstr("restart 1 of 1: all ranks begin again")));
  }
}

TEST(Restart, ANodeThatDoesNotComeBackIsNamedAndTheJobEnds) {
  const TwoNodes nodes;
  const std::vector<std::string> options = {"--max-restarts", "3", "--join-timeout", "10"};
  const auto zero = nodes.start(0, options, "echo ready; exec sleep 300");
  const auto one = nodes.start(1, options, "echo ready; exec sleep 300");
  ASSERT_TRUE(zero->wait_for_out("ready") && one->wait_for_out("ready")) << zero->err();
  one->signal(SIGKILL);
  EXPECT_EQ(zero->wait(), 124);
  EXPECT_THAT(zero->err(), AllOf(HasSubstr("restart 1 of 3: all ranks begin again"),
                                 HasSubstr("the other nodes did not join within 10 s"),
                                 HasSubstr("node rank 1 (host ")));
}

TEST(Restart, ANodeWhoseRendezvousHelperDiesEndsTheJobAtOnce) {
  const TwoNodes nodes;
  const std::vector<std::string> options = {"--max-restarts", "3"};
  const auto first = nodes.start(0, options, "echo ready; exec sleep 300");
  const auto second = nodes.start(1, options, "echo ready; exec sleep 300");
  ASSERT_TRUE(first->wait_for_out("ready") && second->wait_for_out("ready"));
  for (const pid_t pid : tests::processes_with(second->mark())) {
    if (tests::name_of(pid) == "dlrun-rendezvou") ::kill(pid, SIGKILL);
  }
  EXPECT_EQ(second->wait(), 1);
  EXPECT_THAT(second->err(), HasSubstr("dlrun-rendezvous, which the ranks meet through, was killed "
                                       "by signal 9 (SIGKILL)"));
  // It would wait for 10 minutes.
  EXPECT_EQ(first->wait(), 1);
  EXPECT_THAT(first->err(), HasSubstr("dlrun-rendezvous, which the ranks meet through, was killed "
                                      "by signal 9 (SIGKILL)"));
}

TEST(Restart, ANodeThatIsStartedAnewTakesItsPlace) {
  const TwoNodes nodes;
  const std::vector<std::string> options = {"--max-restarts", "1"};
  constexpr const char* kScript =
      "echo attempt $TORCHELASTIC_RESTART_COUNT; "
      "test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 300";
  const auto zero = nodes.start(0, options, kScript);
  const auto one = nodes.start(1, options, kScript);
  ASSERT_TRUE(zero->wait_for_out("attempt 0") && one->wait_for_out("attempt 0")) << zero->err();
  one->signal(SIGKILL);
  ASSERT_TRUE(zero->wait_for_err("all ranks begin again"));
  const auto again = nodes.start(1, options, kScript);
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(again->wait(), 0) << again->err();
  EXPECT_THAT(again->out(), HasSubstr("attempt 1"));
}

TEST(Restart, CtrlCOnOneNodeEndsBothWhileTheyMeetAgain) {
  const TwoNodes nodes;
  const std::vector<std::string> options = {"--max-restarts", "9"};
  const auto zero = nodes.start(0, options, "exit 1");
  const auto one = nodes.start(1, options, "exec sleep 300");
  ASSERT_TRUE(one->wait_for_err("all ranks begin again in 4 s"));
  one->signal(SIGINT);
  EXPECT_EQ(one->wait(), 130);
  EXPECT_EQ(zero->wait(), 130);
  EXPECT_THAT(zero->err(), HasSubstr("stopped by SIGINT"));
}

}  // namespace
}  // namespace dl
