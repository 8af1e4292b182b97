// Connections between ranks that are lost, or slow, while the ranks are well: what is said is true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/chaos/probe_job.h"

namespace dl {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::Job;

// {nodes, ranks of each, backend}
using Shape = std::tuple<int, int, std::string>;

class ResetConnection : public testing::TestWithParam<Shape> {};

TEST_P(ResetConnection, IsSaidAndNoRankIsCalledGone) {
  const auto& [nodes, ranks, backend] = GetParam();
  for (const std::string which : {"first", "last", "all", "closed"}) {
    Job job(nodes, ranks, {"reset", "1", which}, {.backend = backend});
    for (int node = 0; node < nodes; ++node) {
      const int code = job.node(node).wait();
      const std::string err = job.node(node).err();
      if (code == 0 && which != "all" && which != "closed") continue;  // it needed no link
      EXPECT_EQ(code, 1);
      EXPECT_THAT(err, testing::ContainsRegex("dlrun: ranks [0-9, and-]+ lost a connection: "))
          << which << err;
      EXPECT_THAT(err, HasSubstr(which == "closed" ? " was closed, " : " was reset, ")) << which;
      // One that finds it reset only when the other has ended cannot know that. The verdict does.
      const std::string verdict = err.substr(std::min(err.find("dlrun: "), err.size()));
      EXPECT_THAT(verdict, Not(HasSubstr(" is gone"))) << which;
      EXPECT_THAT(verdict, Not(HasSubstr("its own output"))) << which;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, ResetConnection,
                         testing::Values(Shape{1, 2, "tcp"}, Shape{2, 1, "tcp"},
                                         Shape{2, 2, "hybrid"}),
                         [](const auto& shape) {
                           return std::get<2>(shape.param) +
                                  std::to_string(std::get<0>(shape.param));
                         });

class SlowLine : public testing::TestWithParam<Shape> {};

TEST_P(SlowLine, IsNotARankThatDoesNotAnswer) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  const auto& [nodes, ranks, backend] = GetParam();
  const tests::TwoHosts hosts;
  // Questions wait behind four seconds of data.
  hosts.shape("rate 4mbit burst 32kb latency 4s");
  Job job(nodes, ranks, {"slow", "6"}, {.backend = backend, .hosts = &hosts});
  for (int node = 0; node < nodes; ++node) {
    EXPECT_EQ(job.node(node).wait(), 1);
    const std::string err = job.node(node).err();
    EXPECT_THAT(err, HasSubstr("timed out after "));
    EXPECT_THAT(err, Not(HasSubstr("does not answer")));
    EXPECT_THAT(err, Not(HasSubstr("stopped")));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, SlowLine, testing::Values(Shape{2, 1, "tcp"}, Shape{2, 2, "hybrid"}),
                         [](const auto& shape) { return std::get<2>(shape.param); });

}  // namespace
}  // namespace dl
