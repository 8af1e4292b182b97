#include "launcher/node_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

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

}  // namespace
}  // namespace dl::launcher
