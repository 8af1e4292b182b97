// Who gives no sign of life when all are asked for one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

#include "collectives/tcp/core/engine.h"
#include "collectives/tcp/group.h"
#include "core/base/system/unique_fd.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

// Both ends of a connection over the loopback interface.
std::array<UniqueFd, 2> tcp_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener.get(), at, size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), at, &size), 0);
  UniqueFd near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(near.get(), at, size), 0);
  UniqueFd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  EXPECT_EQ(::fcntl(near.get(), F_SETFL, O_NONBLOCK), 0);
  return {std::move(near), std::move(far)};
}

// The host of a rank that is stopped acknowledges the question some 40 ms late. Until then it could
// be on its way over a slow line.
TEST(SilentPeers, AreWaitedForWhileTheQuestionIsOnItsWay) {
  std::array<UniqueFd, 2> data = tcp_pair();
  std::array<UniqueFd, 2> side = tcp_pair();
  const int off = 0;
  ASSERT_EQ(::setsockopt(side[1].get(), IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off), 0);
  tcp::Mesh mesh{.rank = 0, .peers = std::vector<tcp::Mesh::Peer>(2)};
  mesh.peers[0].who = {.rank = 0, .host = "here", .pid = 1};
  mesh.peers[1].who = {.rank = 1, .host = "there", .pid = 2};
  mesh.peers[1].data.push_back(std::move(data[0]));
  mesh.peers[1].side = std::move(side[0]);
  const auto group =
      make_ref<tcp::Group>(make_ref<tcp::Engine>(), std::move(mesh), GroupOptions{.timeout = 30s});
  const auto asked = Deadline::Clock::now();
  group->ask_peers();
  const std::vector<Identity> silent = group->silent_peers(asked, Deadline::after(1s));
  ASSERT_EQ(silent.size(), 1);
  EXPECT_EQ(silent[0].rank, 1);
}

TEST(SilentPeers, AreNoneIfAllAnswer) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group =
        make_tcp_group({.rank = rank, .size = 2, .store = &store, .connect_timeout = 20s});
    auto& asking = dynamic_cast<tcp::Group&>(*group);
    const auto asked = Deadline::Clock::now();
    asking.ask_peers();
    EXPECT_TRUE(asking.silent_peers(asked, Deadline::after(30s)).empty());
    group->barrier()->wait();
  });
}

}  // namespace
}  // namespace dl::collectives
