// --on-failure keep: when a rank fails, the others live on and may finish their work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Line = std::vector<std::string>;

constexpr const char* kWentOn =
    "dlrun: the job went on without rank 1, which failed; ranks 0 and 2 ended with exit code 0\n";

// Three ranks of a script on one node.
class Keep : public testing::Test {
 protected:
  tests::Process job(const std::string& script, const Line& options = {}) const {
    Line line = {tests::program("dlrun"), "--nproc-per-node=3", "--on-failure=keep"};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), {"bash", "-c", script});
    return tests::Process(line, {});
  }
  // The other ranks do `others` once the gate is open, which is after dlrun has named rank 1.
  std::string rank_1_ends(const std::string& how, const std::string& others) const {
    return "if test $RANK = 1; then " + how + "; fi; " + gate_.wait() + others;
  }

  tests::Gate gate_;
};

TEST_F(Keep, TheOthersFinishAndTheJobEndsWell) {
  const std::pair<const char*, const char*> cases[] = {
      {"exit 3", "ended with exit code 3"}, {"kill -9 $$", "was killed by signal 9 \\(SIGKILL\\)"}};
  for (const auto& [how, said] : cases) {
    const tests::Gate gate;
    tests::Process run({tests::program("dlrun"), "--nproc-per-node=3", "--on-failure", "keep",
                        "--linger=0", "sh", "-c",
                        std::string("if test $RANK = 1; then sleep 300 & ") + how + "; fi; " +
                            gate.wait() + "echo finished"});
    ASSERT_TRUE(run.wait_for_err("; 2 ranks go on (--on-failure keep)\n")) << run.err();
    EXPECT_THAT(run.err(), ContainsRegex(std::string("dlrun: rank 1 \\(node 0, host [^ ]+, pid "
                                                     "[0-9]+\\) ") +
                                         said + " after [0-9.]+ s; 2 ranks go on"));
    gate.open();
    EXPECT_EQ(run.wait(), 0) << run.err();
    EXPECT_THAT(run.out(),
                AllOf(HasSubstr("[rank 0] finished\n"), HasSubstr("[rank 2] finished\n")));
    EXPECT_THAT(run.err(), HasSubstr(kWentOn));
    EXPECT_THAT(tests::processes_with(run.mark()), IsEmpty()) << "the rank's `sleep`";
  }
}

TEST_F(Keep, TheFirstCauseCountsIfAllHaveFailed) {
  tests::Process run = job(rank_1_ends("exit 3", "exit 5"));
  ASSERT_TRUE(run.wait_for_err("; 2 ranks go on")) << run.err();
  gate_.open();
  EXPECT_EQ(run.wait(), 3);
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("; 1 rank goes on (--on-failure keep)\n"),
                    ContainsRegex("dlrun: rank 1 [^\n]* ended with exit code 3 after [0-9.]+ s\n"),
                    HasSubstr("  the others: ranks 0 and 2: ended with exit code 5\n"),
                    Not(HasSubstr("went on without"))));
}

TEST_F(Keep, AFailureThatNoRankOutlivesIsTheJobs) {
  // Rank 2 ends well, and is gone before rank 0 fails.
  const tests::TempDir folder;
  const std::string pid = folder.path() + "/pid";
  tests::Process run = job(rank_1_ends(
      "exit 3", "if test $RANK = 2; then echo $$ > " + pid + ".new; mv " + pid + ".new " + pid +
                    "; exit 0; fi; while ! test -e " + pid + " || kill -0 $(cat " + pid +
                    ") 2> /dev/null; do sleep 0.01; done; exit 5"));
  ASSERT_TRUE(run.wait_for_err("; 2 ranks go on")) << run.err();
  gate_.open();
  EXPECT_EQ(run.wait(), 5);
  EXPECT_THAT(run.err(), ContainsRegex("dlrun: rank 0 [^\n]* ended with exit code 5 [^\n]*s\n"));
  EXPECT_THAT(run.err(), HasSubstr("  the others: rank 2: ended with exit code 0; rank 1: ended "
                                   "with exit code 3\n"));
}

TEST_F(Keep, TheJobBeginsAgainOnceNoRankIsLeft) {
  const std::string again = "test $DLRUN_GENERATION = 1 && exit 0; ";
  tests::Process run = job(again + rank_1_ends("exit 3", "exit 5"), {"--max-restarts=1"});
  ASSERT_TRUE(run.wait_for_err("; 2 ranks go on")) << run.err();
  EXPECT_THAT(run.err(), Not(HasSubstr("restart")));
  gate_.open();
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("dlrun: restart 1 of 1: all ranks begin again\n"));
}

TEST_F(Keep, ASignalToDlrunEndsAll) {
  for (const int signal : {SIGINT, SIGTERM}) {
    tests::Process run = job(rank_1_ends("exit 3", ":"));
    ASSERT_TRUE(run.wait_for_err("; 2 ranks go on")) << run.err();
    run.signal(signal);
    EXPECT_EQ(run.wait(), 128 + signal) << run.err();
    EXPECT_THAT(tests::processes_with(run.mark()), IsEmpty());
  }
}

// As MPICH's ranks do: rank 1 fails before it comes to MPI_Init, in which the others wait.
TEST_F(Keep, NoBarrierOfMpiWaitsForADeadRank) {
  tests::Process run =
      job("if test $RANK = 1; then " + gate_.wait() +
              "exit 3; fi; say() { echo \"$1\" >&$PMI_FD; read -r answer <&$PMI_FD; echo "
              "\"$answer\"; }; "
              "say 'cmd=init pmi_version=1 pmi_subversion=1'; echo waits; say cmd=barrier_in; say "
              "cmd=finalize",
          {"--mpi=pmi1"});
  ASSERT_TRUE(run.wait_for_out("[rank 0] waits\n"));
  ASSERT_TRUE(run.wait_for_out("[rank 2] waits\n"));
  gate_.open();
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[rank 0] cmd=barrier_out rc=0\n"),
                               HasSubstr("[rank 2] cmd=barrier_out rc=0\n")));
}

// Ranks of the probe, which call collectives.
class KeepGroups : public testing::Test {
 protected:
  // The dlrun of one of two nodes with so many ranks.
  std::unique_ptr<tests::Process> node(int number, int ranks, const Line& options,
                                       const Line& program) {
    Line line = {tests::program("dlrun"), "--nnodes=2", "--node-rank=" + std::to_string(number),
                 "--rdzv-endpoint=127.0.0.1:" + std::to_string(port_),
                 "--nproc-per-node=" + std::to_string(ranks)};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), program.begin(), program.end());
    return std::make_unique<tests::Process>(
        line, tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home_.path()}});
  }

  tests::TempDir home_;
  int port_ = tests::free_port();
};

TEST_F(KeepGroups, SurvivorsHearOfTheDeathAndReformTheirGroup) {
  for (const std::string backend : {"shm", "tcp"}) {
    for (const std::string how : {"exit", "kill"}) {
      tests::Process run({tests::program("dlrun"), "--nproc-per-node=3", "--on-failure=keep",
                          tests::program("on_failure_probe"), "1", how},
                         {.environment = {"DLRUN_BACKEND=" + backend}});
      EXPECT_EQ(run.wait(), 0) << run.err();
      EXPECT_THAT(run.out(), AllOf(ContainsRegex("\\[rank 0\\] heard: [^\n]*rank 1"),
                                   ContainsRegex("\\[rank 2\\] heard: [^\n]*rank 1"),
                                   HasSubstr("[rank 0] goes on as 0 of 2: sum 2\n"),
                                   HasSubstr("[rank 2] goes on as 1 of 2: sum 2\n")));
      EXPECT_THAT(run.err(), HasSubstr(kWentOn));
    }
  }
}

TEST_F(KeepGroups, AReformThatFailsIsToldWithItsOwnReason) {
  for (const std::string backend : {"shm", "tcp"}) {
    tests::Process run({tests::program("dlrun"), "--nproc-per-node=3", "--on-failure=keep",
                        tests::program("on_failure_probe"), "1", "exit", "absent"},
                       {.environment = {"DLRUN_BACKEND=" + backend}});
    EXPECT_TRUE(run.wait_for_err(", because of rank 2 in the reform of group 'world'; 1 rank goes"))
        << run.err();
    run.signal(SIGTERM);
    run.wait();
  }
}

// A rank that makes its group anew ends the old one, and has not failed by that.
TEST_F(KeepGroups, ADeathAfterAReformIsItsOwnCause) {
  for (const std::string backend : {"shm", "tcp", "hybrid"}) {
    for (const std::string how : {"exit", "kill"}) {
      tests::Process run({tests::program("dlrun"), "--nproc-per-node=3",
                          tests::program("on_failure_probe"), "1", how, "renewed"},
                         {.environment = {"DLRUN_BACKEND=" + backend}});
      EXPECT_EQ(run.wait(), how == "kill" ? 128 + SIGKILL : 3) << run.err();
      EXPECT_THAT(run.err(), ContainsRegex("dlrun: rank 1 [^\n]*(exit code 3|SIGKILL)"));
      EXPECT_THAT(run.err(), Not(HasSubstr("failed because of")));
    }
  }
}

TEST_F(KeepGroups, RankZeroMayBeTheDeadOne) {
  tests::Process run({tests::program("dlrun"), "--nproc-per-node=3", "--on-failure=keep",
                      tests::program("on_failure_probe"), "0", "kill"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[rank 1] goes on as 0 of 2: sum 2\n"),
                               HasSubstr("[rank 2] goes on as 1 of 2: sum 2\n")));
}

TEST_F(KeepGroups, SurvivorsOfTwoNodesGoOnAndAllAreTold) {
  const Line keep = {"--on-failure=keep"};
  for (const std::string dead : {"1", "2"}) {  // of two ranks of node 0; the only one of node 1
    const Line probe = {tests::program("on_failure_probe"), dead, "kill"};
    const auto a = node(0, 2, keep, probe);
    const auto b = node(1, 1, keep, probe);
    for (const auto* one : {&a, &b}) {
      EXPECT_EQ((*one)->wait(), 0) << (*one)->err();
      EXPECT_THAT((*one)->err(),
                  AllOf(ContainsRegex("dlrun: rank " + dead +
                                      " \\(node [01], [^\n]* was killed by "
                                      "signal 9 \\(SIGKILL\\) after [0-9.]+ s; 2 ranks go on"),
                        HasSubstr("dlrun: the job went on without rank " + dead +
                                  ", which failed; ranks 0")));
      EXPECT_THAT(tests::processes_with((*one)->mark()), IsEmpty());
    }
    EXPECT_THAT(a->out(), HasSubstr("[rank 0] goes on as 0 of 2: sum 2\n"));
  }
}

TEST_F(KeepGroups, IfAllRanksOfTwoNodesFailTheFirstCauseCounts) {
  const tests::Gate gate;
  const Line script = {"sh", "-c", "test $RANK = 2 && exit 3; " + gate.wait() + "exit 5"};
  const auto a = node(0, 2, {"--on-failure=keep"}, script);
  const auto b = node(1, 1, {"--on-failure=keep"}, script);
  ASSERT_TRUE(a->wait_for_err("; 2 ranks go on")) << a->err();
  gate.open();
  for (const auto* one : {&a, &b}) {
    EXPECT_EQ((*one)->wait(), 3);
    EXPECT_THAT((*one)->err(),
                ContainsRegex("dlrun: rank 2 \\(node 1, [^\n]* ended with exit code 3 [^\n]*s\n"));
  }
}

TEST_F(KeepGroups, ALostNodeEndsTheJob) {
  const tests::Gate gate;
  const auto a =
      node(0, 1, {"--on-failure=keep", "--grace=1"}, {"sh", "-c", "echo up; " + gate.wait()});
  const auto b = node(1, 1, {"--on-failure=keep"}, {"sh", "-c", "echo up; " + gate.wait()});
  ASSERT_TRUE(a->wait_for_out("up\n"));
  ASSERT_TRUE(b->wait_for_out("up\n"));
  b->signal(SIGKILL);
  EXPECT_NE(a->wait(), 0);
  EXPECT_THAT(a->err(), HasSubstr("node rank 1"));
  EXPECT_THAT(tests::processes_with(a->mark()), IsEmpty());
}

TEST_F(KeepGroups, ANodeWithoutTheOptionIsRefused) {
  const auto a = node(0, 1, {"--on-failure=keep"}, {"true"});
  const auto b = node(1, 1, {}, {"true"});
  EXPECT_NE(b->wait(), 0);
  EXPECT_THAT(b->err(), HasSubstr("this node was started with --on-failure stop, the job has "
                                  "--on-failure keep"));
  a->signal(SIGTERM);
  EXPECT_EQ(a->wait(), 128 + SIGTERM);
}

TEST_F(KeepGroups, ADeadRankDoesNotHaveToSave) {
  tests::Process run({tests::program("dlrun"), "--nproc-per-node=3", "--on-failure=keep",
                      "--preempt", tests::program("on_failure_probe"), "1", "kill", "save"},
                     {});
  ASSERT_TRUE(run.wait_for_out("[rank 0] goes on as ")) << run.err();
  ASSERT_TRUE(run.wait_for_err("; 2 ranks go on")) << run.err();
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[rank 0] saved\n"), HasSubstr("[rank 2] saved\n")));
  EXPECT_THAT(run.err(), AllOf(HasSubstr(kWentOn), HasSubstr("dlrun: saved: every rank ")));
}

}  // namespace
}  // namespace dl
