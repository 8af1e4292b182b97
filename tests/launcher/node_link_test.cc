#include "launcher/nodes/node_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace dl::launcher {
namespace {

// That the helper has ended may be known before what it wrote has been read.
TEST(NodeLink, ReadsWhatAHelperThatHasEndedSaidLast) {
  boost::asio::io_context io;
  std::string said;
  NodeEvents events;
  events.on_error = [&](const std::string& kind, const std::string& text) {
    said = kind + ": " + text;
  };
  NodeLink link(io, events);
  UniqueFd helper = link.take_stdout();
  constexpr std::string_view kLine =
      R"({"error": {"kind": "authentication", "text": "another key"}})"
      "\n";
  ASSERT_EQ(::write(helper.get(), kLine.data(), kLine.size()), static_cast<ssize_t>(kLine.size()));
  helper.reset();
  link.read_rest();
  EXPECT_EQ(said, "authentication: another key");
}

TEST(NodeLink, SaysThatItTurnsAndThatItsUserStopsIt) {
  boost::asio::io_context io;
  NodeLink link(io, {});
  UniqueFd helper = link.take_stdin();
  NodePlan plan;
  plan.job.started.program = {"./train"};
  const auto said = [&] {
    char text[8192];
    const ssize_t n = ::read(helper.get(), text, sizeof text);
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  };
  link.join(plan, plan.node_rank, 1);
  constexpr const char* kTurns = "{\"agent\":{\"state\":\"TURNS\"}}\n";
  EXPECT_TRUE(said().ends_with(kTurns));
  io.run_one();  // the next beat
  EXPECT_EQ(said(), kTurns);
  link.suspended();
  EXPECT_EQ(said(), "{\"agent\":{\"state\":\"SUSPENDED\"}}\n");
  link.resumed();
  EXPECT_EQ(said(), kTurns);
}

}  // namespace
}  // namespace dl::launcher
