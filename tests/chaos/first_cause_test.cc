// The first cause is named first, however the deaths that follow from it race with it, and wherever
// the ranks are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::HasSubstr;

// A job of the probe: so many nodes, each a dlrun of its own on this host, with so many ranks.
class Job {
 public:
  Job(int nodes, int ranks, const std::vector<std::string>& arguments) {
    const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
    for (int node = 0; node < nodes; ++node) {
      std::vector<std::string> line = {tests::program("dlrun"), "--nproc-per-node",
                                       std::to_string(ranks)};
      if (nodes > 1) {
        line.insert(line.end(), {"--nnodes", std::to_string(nodes), "--node-rank",
                                 std::to_string(node), "--rdzv-endpoint", endpoint});
      }
      line.push_back(tests::program("../tests/group_probe"));
      line.insert(line.end(), arguments.begin(), arguments.end());
      nodes_.push_back(std::make_unique<tests::Process>(
          line, tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home_.path(),
                                                        "DLRUN_NODE_ID=" + std::to_string(node)}}));
    }
  }
  // What every node says first, and that all end with `code`.
  void expect(int code, const std::string& first) {
    for (const auto& node : nodes_) {
      EXPECT_EQ(node->wait(), code);
      const std::string err = "\n" + node->err();
      const std::size_t at = err.find("\ndlrun: rank ");
      ASSERT_NE(at, std::string::npos) << err;
      const std::string line = err.substr(at + 1, err.find('\n', at + 1) - at - 1);
      EXPECT_THAT(line, testing::StartsWith("dlrun: " + first)) << err;
    }
  }
  std::string err() const { return nodes_.front()->err(); }

 private:
  tests::TempDir home_;
  std::vector<std::unique_ptr<tests::Process>> nodes_;
};

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

TEST(FirstCause, OfAMismatchIsTheOddRankWhereverTheRanksAre) {
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

TEST(FirstCause, IsARankThatLeavesWhileTheOthersWaitForIt) {
  for (const int nodes : {1, 2}) {
    Job job(nodes, 4 / nodes, {"leave", "2"});
    job.expect(1, nodes == 1 ? "rank 2 (node 0" : "rank 2 (node 1");
    EXPECT_THAT(job.err(), HasSubstr("ended with exit code 0"));
    EXPECT_THAT(job.err(), HasSubstr(" while ranks 0-1, 3 were waiting for it in barrier #"));
  }
}

}  // namespace
}  // namespace dl
