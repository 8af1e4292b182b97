// The first cause is named first, however the deaths that follow from it race with it, and wherever
// the ranks are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/chaos/probe_job.h"
#include "tests/support/eventually.h"
#include "tests/support/gate.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using tests::Job;

TEST(FirstCause, IsTheRankThatThrewInEveryOf200Runs) {
  for (int run = 0; run < 200; ++run) {
    tests::Process job({tests::program("dlrun"), "--nproc-per-node", "2",
                        tests::program("../tests/group_probe"), "throw", "1"});
    ASSERT_EQ(job.wait(), 1) << job.err();
    const std::string err = job.err();
    const std::string first = err.substr(err.find("dlrun: "), 20);
    ASSERT_THAT(first, HasSubstr("dlrun: rank 1 (node ")) << "run " << run << ":\n" << err;
    ASSERT_THAT(err, HasSubstr("| error: train.bin: a broken record"));
  }
}

TEST(FirstCause, OfAMismatchIsTheOddRankOnAnyNode) {
  for (const int nodes : {1, 2, 4}) {
    for (const int odd : {0, 3}) {
      const tests::TempDir folder;
      Job job(nodes, 4 / nodes, {"differ", std::to_string(odd), folder.path()});
      job.expect(1, "rank " + std::to_string(odd) + " (node ");
      EXPECT_THAT(job.err(), HasSubstr("called barrier #"));
      EXPECT_THAT(job.err(), HasSubstr(odd == 0 ? "ranks 1-3 called all_reduce"
                                                : "ranks 0-2 called all_reduce"));
    }
  }
}

TEST(FirstCause, IsARankThatEndsBeforeTheGroupIsMade) {
  for (const int nodes : {1, 2}) {
    Job job(nodes, 4 / nodes, {"early", "1"});
    job.expect(1, "rank 1 (node 0");
    EXPECT_THAT(job.err(), HasSubstr("ended with exit code 0"));
    EXPECT_THAT(job.err(), HasSubstr("waiting for it in the making of group 'world'"));
  }
}

// Without rank 0 there is no id to meet by, and without rank 1 the others meet and wait.
TEST(FirstCause, IsARankThatDoesNotComeToAGroupOverAStore) {
  for (const int odd : {0, 1}) {
    for (const int nodes : {1, 2}) {
      const tests::TempDir folder;
      Job job(nodes, 4 / nodes, {"early", std::to_string(odd), folder.path()});
      job.expect(1, "rank " + std::to_string(odd) + " (node 0");
      EXPECT_THAT(job.err(), HasSubstr("ended with exit code 0"));
      EXPECT_THAT(job.err(), HasSubstr("waiting for it in the making of group 'group'"));
    }
  }
}

TEST(FirstCause, IsARankThatDoesNotComeToAGroupWithOtherNumbers) {
  for (const std::string how : {"turned", "reversed"}) {
    for (const int odd : {0, 1}) {
      const tests::TempDir folder;
      Job job(1, 4, {how, std::to_string(odd), folder.path()});
      job.expect(1, "rank " + std::to_string(odd) + " (node 0");
      EXPECT_THAT(job.err(), HasSubstr("ended with exit code 0"));
      EXPECT_THAT(job.err(), HasSubstr("waiting for it in the making of group 'group'"));
    }
  }
}

TEST(FirstCause, IsARankThatInitsAGroupOfAnotherName) {
  for (const int odd : {0, 2}) {
    Job job(1, 4, {"unnamed", std::to_string(odd)});
    // On a loaded machine dlrun may hear of it from one side only.
    job.expect(1, "rank");
    EXPECT_THAT(job.err(), HasSubstr("'another'"));
    EXPECT_THAT(job.err(), HasSubstr("give the group the same name on all ranks"));
  }
}

TEST(FirstCause, IsARankThatMakesAnotherGroup) {
  for (const int odd : {0, 2}) {
    for (const std::string unlike : {"name", "size", "backend"}) {
      SCOPED_TRACE(unlike);
      const tests::TempDir folder;
      Job job(1, 4, {"unlike", std::to_string(odd), unlike, folder.path()});
      job.expect(1, "rank " + std::to_string(odd) + " (node 0");
      EXPECT_THAT(job.err(), HasSubstr(odd == 0 ? "ranks 1-3 called make_group of 'group' of 4 "
                                                : "ranks 0-1 and 3 called make_group of 'group'"));
    }
  }
}

TEST(FirstCause, OfTwoProcessesAsOneRankIsToldOfBoth) {
  for (const std::string how : {"init", "id"}) {
    for (const int nodes : {1, 2}) {
      const tests::TempDir folder;
      Job job(nodes, 4 / nodes, {"twin", "2", how, folder.path()});
      job.expect(1, "ranks 1-2 do not agree: ");
      EXPECT_THAT(job.err(), HasSubstr(" rank 1 ("));
      EXPECT_THAT(job.err(), HasSubstr("rank 2 (1 in the group, "));
      EXPECT_THAT(job.err(), HasSubstr("have both come as rank 1;"));
    }
  }
}

TEST(FirstCause, IsARankThatAllocatesAnotherSize) {
  for (const int nodes : {1, 2}) {
    Job job(nodes, 4 / nodes, {"memory", "2"});
    job.expect(1, nodes == 1 ? "rank 2 (node 0" : "rank 2 (node 1");
    EXPECT_THAT(job.err(), HasSubstr("rank 2 called allocate of 4096 bytes, ranks 0-1 and 3 called "
                                     "allocate of 8192 bytes"));
  }
}

TEST(FirstCause, IsARankThatAllocatesWhileTheOthersReduce) {
  for (const int nodes : {1, 2, 4}) {
    Job job(nodes, 4 / nodes, {"allocate", "1"});
    job.expect(1, "rank 1 (node ");
    EXPECT_THAT(job.err(), HasSubstr("rank 1 called allocate #"));
    EXPECT_THAT(job.err(), HasSubstr("ranks 0 and 2-3 called all_reduce #"));
  }
}

TEST(FirstCause, IsARankThatAbortsAGroupAndSeesTheOthersEnd) {
  for (const int nodes : {1, 2}) {
    Job job(nodes, 4 / nodes, {"aborts", "1"});
    job.expect(1, "rank 1 (node 0");
    EXPECT_THAT(job.err(), HasSubstr("it gives up"));
  }
}

TEST(FirstCause, OfAGroupThatIsNotMadeInTimeIsTheAbsentRank) {
  std::string err;
  // A loaded machine may take long to start the other ranks.
  for (int seconds = 1; seconds < 100; seconds *= 2) {
    const tests::TempDir folder;
    tests::Process run({tests::program("dlrun"), "-n", "3", tests::program("../tests/group_probe"),
                        "absent", "1", std::to_string(seconds), folder.path()});
    EXPECT_EQ(run.wait(150s), 1);
    err = run.err();
    if (err.find("\ndlrun: rank 1 had not done its part in the making of group 'group' in time and "
                 "has not ended on its own; rank ") != std::string::npos) {
      return;
    }
  }
  ADD_FAILURE() << err;
}

// "early" of a rank that does not exist: only the gate holds up rank 1.
TEST(Waits, ForARankToComeToAGroupAreToldOnRequest) {
  for (const bool over_a_store : {false, true}) {
    const tests::TempDir folder;
    const tests::Gate gate;
    const std::string group = over_a_store ? "'group'" : "'world'";
    tests::Process run({tests::program("dlrun"), "-n", "3", "sh", "-c",
                        "echo up; if test $RANK = 1; then " + gate.wait() + "fi; exec " +
                            tests::program("../tests/group_probe") + " early 9 " +
                            (over_a_store ? folder.path() : "")});
    ASSERT_TRUE(run.wait_for_out(" up\n")) << "before, the signal would end dlrun";
    const std::string told =
        "dlrun: ranks 0 and 2 wait for rank 1 in the making of group " + group + "\n";
    EXPECT_TRUE(tests::eventually([&] {
      run.signal(SIGUSR1);
      return run.wait_for_err(told, 1s);
    })) << run.err();
    gate.open();
    EXPECT_EQ(run.wait(), 0) << run.err();
  }
}

TEST(Waits, ForARankToComeToAGroupAreToldAtTheDeadline) {
  std::string err;
  // A loaded machine may take long to start rank 0.
  for (int seconds = 2; seconds < 100; seconds *= 2) {
    tests::Process run({tests::program("dlrun"), "-n", "2", "--timeout", std::to_string(seconds),
                        "sh", "-c",
                        "if test $RANK = 1; then exec sleep 300; fi; exec " +
                            tests::program("../tests/group_probe") + " early 9"});
    EXPECT_EQ(run.wait(150s), 124);
    err = run.err();
    if (err.find("dlrun: rank 0 waits for rank 1 in the making of group") != std::string::npos) {
      return;
    }
  }
  ADD_FAILURE() << err;
}

TEST(FirstCause, IsNoFailureThatAllHaveCaughtAndGotOver) {
  for (const int nodes : {1, 2}) {
    for (const std::string how : {"kill", "throw", "leave", "differ"}) {
      SCOPED_TRACE(how);
      Job job(nodes, 4 / nodes, {"caught", "2", how});
      job.expect(how == "kill" ? 137 : 1, nodes == 1 ? "rank 2 (node 0" : "rank 2 (node 1");
      if (how == "differ") {
        EXPECT_THAT(job.err(), HasSubstr("rank 2 called broadcast #"));
      }
    }
  }
}

TEST(FirstCause, IsARankThatIsKilledAfterItHasCaughtAFailure) {
  Job job(1, 4, {"killed", "2"});
  job.expect(137, "rank 2 (node 0");
}

TEST(FirstCause, IsAFailureThatIsCaughtAfterACallOfAnotherGroup) {
  for (const int nodes : {1, 2}) {
    const tests::TempDir folder;
    Job job(nodes, 4 / nodes, {"uncaught", "2", folder.path()});
    job.expect(1, nodes == 1 ? "rank 2 (node 0" : "rank 2 (node 1");
    EXPECT_THAT(job.err(), HasSubstr("rank 2 called all_reduce #"));
  }
}

TEST(FirstCause, IsARankThatLeavesWhileTheOthersWaitForIt) {
  for (const int nodes : {1, 2}) {
    Job job(nodes, 4 / nodes, {"leave", "2"});
    job.expect(1, nodes == 1 ? "rank 2 (node 0" : "rank 2 (node 1");
    EXPECT_THAT(job.err(), HasSubstr("ended with exit code 0"));
    EXPECT_THAT(job.err(), HasSubstr(" while ranks 0-1 and 3 were waiting for it in barrier #"));
  }
}

}  // namespace
}  // namespace dl
