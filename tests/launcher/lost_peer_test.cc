#include "launcher/verdict/report.h"

#include <gtest/gtest.h>

#include <string>

namespace dl::launcher {
namespace {

TEST(LostPeer, IsWhatTheLastMessageSays) {
  const std::string gloo =
      "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:545] Read error [127.0.0.1]:13035: "
      "Connection reset by peer. Check the logs of the remote worker\n";
  const std::string traceback = "[rank0]: Traceback (most recent call last):\n";
  EXPECT_TRUE(says_peer_was_lost(gloo));
  EXPECT_TRUE(says_peer_was_lost(traceback + gloo + "[rank0]: frame\n"));
  EXPECT_FALSE(says_peer_was_lost(""));
  EXPECT_FALSE(says_peer_was_lost("[rank0]: ValueError: bad batch\n"));
  // What was survived is no reason for the end.
  EXPECT_FALSE(says_peer_was_lost(traceback + gloo + traceback + "ValueError: bad batch\n"));
  std::string later = gloo;
  for (int i = 0; i < 20; ++i) later += "line\n";
  EXPECT_FALSE(says_peer_was_lost(later));
}

TEST(PortTaken, IsWhatTheLastMessageSays) {
  EXPECT_TRUE(says_port_was_taken("OSError: [Errno 98] Address already in use\n"));
  EXPECT_TRUE(says_port_was_taken("bind: address already in use\n"));
  EXPECT_TRUE(says_port_was_taken("Error: listen EADDRINUSE: 0.0.0.0:15000\n"));
  EXPECT_FALSE(says_port_was_taken("ValueError: bad batch\n"));
}

}  // namespace
}  // namespace dl::launcher
