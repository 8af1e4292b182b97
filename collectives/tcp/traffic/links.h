// Links: all links of the TCP groups that share an engine. It knows when their sockets are ready,
// and when each process was last heard over any of them.
//
// A part of the Engine, below all groups; its driver alone may call it.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/tcp/wire/link.h"
#include "core/base/system/process/fork.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::tcp {

class Peers;

// Signs of life of a rank's process.
struct Signs {
  Link::Clock::time_point heard{};
  bool is_reachable = false;  // its host has recently acknowledged data
};

class Links {
 public:
  Links();

  // Readable when a socket is ready.
  int fd() const noexcept { return epoll_.get(); }
  // Tells the links whose sockets are ready, without blocking. True if there may be more.
  bool poll() noexcept;

  // Closing a socket does not remove it from epoll if a forked child has inherited it.
  void watch(Link& link);
  void unwatch(Link& link) noexcept;

  void add(const Peers& group) { groups_.push_back(&group); }
  void remove(const Peers& group) noexcept { std::erase(groups_, &group); }
  // Over the links of all groups.
  Signs signs_of(const Identity& who) const noexcept;

  // Room for a slice and an element, for received bytes that are still to be reduced.
  std::byte* staging() noexcept { return staging_.data(); }

 private:
  const UniqueFd epoll_;
  // Closed in a forked child, which would otherwise act on the parent's epoll.
  ParentOnlyFds parent_only_;
  std::vector<const Peers*> groups_;
  std::vector<std::byte> staging_;
};

}  // namespace dl::collectives::tcp
