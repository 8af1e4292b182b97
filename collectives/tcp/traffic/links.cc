#include "collectives/tcp/traffic/links.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "collectives/tcp/traffic/peers.h"
#include "core/base/error.h"

namespace dl::collectives::tcp {
namespace {

constexpr int kEventsARound = 64;

}  // namespace

Links::Links()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), staging_(kMostSliceBytes + sizeof(std::uint64_t)) {
  if (!epoll_) throw_errno(errno, "epoll_create1");
  parent_only_.add(epoll_.get());
}

bool Links::poll() noexcept {
  std::array<epoll_event, kEventsARound> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsARound, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    static_cast<Link*>(event.data.ptr)->on_events(event.events);
  }
  return count == kEventsARound;
}

void Links::watch(Link& link) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &link;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link.fd(), &event) != 0) {
    throw_errno(errno, "epoll_ctl");
  }
}

void Links::unwatch(Link& link) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.fd(), nullptr);
}

Signs Links::signs_of(const Identity& who) const noexcept {
  Signs all;
  for (const Peers* const group : groups_) {
    const Signs signs = group->signs_of(who);
    all.heard = std::max(all.heard, signs.heard);
    all.is_reachable |= signs.is_reachable;
  }
  return all;
}

}  // namespace dl::collectives::tcp
