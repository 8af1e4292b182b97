// MakingWait: one wait for other ranks while a group is made. It logs for whom this rank waits, and
// ends the wait if the group cannot be made any more.
//
// Used by one thread; `options` outlive it.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "collectives/call/identity.h"
#include "collectives/join/group_options.h"
#include "core/base/deadline.h"
#include "rendezvous/net/patience.h"

namespace dl::collectives {

class MakingWait {
 public:
  // `what`: what the other rank has to do, for texts: "connect".
  MakingWait(const GroupOptions& options, Deadline deadline, std::string what)
      : options_(options), deadline_(deadline), what_(std::move(what)) {}

  // When to call check() next; at most half a second from now.
  Deadline until() const noexcept;
  // `missing`: one rank or more. Throws kPeerFailed if the process of one has ended, what the
  // options' check_making() throws, and kTimeout at the deadline. The error blames a rank.
  void check(std::span<const Identity* const> missing);
  void check(const Identity& missing) {
    const Identity* const only = &missing;
    check(std::span(&only, 1));
  }

 private:
  const GroupOptions& options_;
  const Deadline deadline_;
  const std::string what_;
  rendezvous::Patience patience_;
};

}  // namespace dl::collectives
