// Jobs whose ranks are numbered round robin over two nodes: two dlruns on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RankBy : public testing::Test {
 protected:
  // The dlrun of a node with so many ranks.
  std::unique_ptr<tests::Process> node(int number, int ranks, const std::string& backend,
                                       const std::vector<std::string>& options,
                                       const std::vector<std::string>& program) {
    std::vector<std::string> line = {tests::program("dlrun"), "--nnodes=2",
                                     "--node-rank=" + std::to_string(number),
                                     "--rdzv-endpoint=127.0.0.1:" + std::to_string(port_),
                                     "--nproc-per-node=" + std::to_string(ranks)};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), program.begin(), program.end());
    return std::make_unique<tests::Process>(
        line, tests::Process::Options{
                  .environment = {"XDG_CONFIG_HOME=" + home_.path(), "DLRUN_BACKEND=" + backend}});
  }

  tests::TempDir home_;
  int port_ = tests::free_port();
};

TEST_F(RankBy, NodeNumbersRoundRobinAndCollectivesAreRight) {
  for (const std::string backend : {"hybrid", "tcp"}) {
    for (const int ranks : {2, 3}) {  // of node 1
      const std::vector<std::string> probe = {tests::program("rank_by_probe")};
      const auto a = node(0, 2, backend, {"--rank-by", "node"}, probe);
      const auto b = node(1, ranks, backend, {"--rank-by", "node"}, probe);
      EXPECT_EQ(a->wait(), 0) << a->err();
      EXPECT_EQ(b->wait(), 0) << b->err();
      const std::string how = ", " + backend + ": right\n";
      EXPECT_THAT(a->out(), AllOf(HasSubstr("[rank 0] local 0 of node 0" + how),
                                  HasSubstr("[rank 2] local 1 of node 0" + how)));
      EXPECT_THAT(b->out(), AllOf(HasSubstr("[rank 1] local 0 of node 1" + how),
                                  HasSubstr("[rank 3] local 1 of node 1" + how)));
      if (ranks == 3) {
        EXPECT_THAT(b->out(), HasSubstr("[rank 4] local 2 of node 1" + how));
      }
    }
  }
}

TEST_F(RankBy, AFailedRankIsNamedWithItsNodeAndItsLogs) {
  const tests::TempDir logs;
  const std::vector<std::string> options = {"--rank-by=node", "--grace=1",
                                            "--log-dir=" + logs.path()};
  // Rank 3 fails once it has heard of all the others.
  const std::string fifo = logs.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::vector<std::string> script = {
      "sh", "-c",
      "echo $RANK; test $RANK = 3 || { echo > " + fifo + "; exec sleep 300; }; exec 3<> " + fifo +
          "; read a <&3; read b <&3; read c <&3; echo why >&2; exit 7"};
  const auto a = node(0, 2, "auto", options, script);
  const auto b = node(1, 2, "auto", options, script);
  for (const auto* one : {&a, &b}) {
    EXPECT_EQ((*one)->wait(), 7);
    EXPECT_THAT((*one)->err(), AllOf(HasSubstr("dlrun: rank 3 (node 1, host "),
                                     HasSubstr(" ended with exit code 7"), HasSubstr("| why")));
  }
  for (const std::string rank : {"0", "1", "2", "3"}) {
    EXPECT_EQ(tests::read_file(logs.path() + "/latest/attempt_0/" + rank + "/stdout.log"),
              rank + "\n");
  }
}

TEST_F(RankBy, ANodeWithAnotherOrderIsRefused) {
  const auto a = node(0, 1, "auto", {"--rank-by=node"}, {"true"});
  const auto b = node(1, 1, "auto", {}, {"true"});
  EXPECT_NE(b->wait(), 0);
  EXPECT_THAT(b->err(),
              HasSubstr("this node was started with --rank-by slot, the job has --rank-by node"));
  a->signal(SIGTERM);
  EXPECT_EQ(a->wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace dl
