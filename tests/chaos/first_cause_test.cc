// The first cause is named first, however the deaths that follow from it race with it, and wherever
// the ranks are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/chaos/probe_job.h"

namespace dl {
namespace {

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
