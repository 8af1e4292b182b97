// Choice: the backend through which the ranks of a job communicate.
//
// Every rank publishes which backend it was asked for, its node, and what it needs to share memory.
// All ranks read all offers and decide alike (docs/protocol.md). Any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "collectives/join/group_options.h"
#include "collectives/join/roster.h"
#include "core/base/deadline.h"
#include "core/base/lifetime/ref.h"

namespace dl::collectives {

// Throws kInvalidArgument for an unknown backend.
void check_backend(std::string_view asked);

// What one rank offers.
struct Offer {
  Identity who{};
  std::string asked{};  // "auto", "tcp", "shm", "hybrid"
  // Memory can be passed only within one kernel, one network namespace and one user.
  std::string kernel{};
  std::string network{};
  std::string user{};
  std::string lacks{};  // why it has no memory to share; empty: it has some

  std::string text() const;  // one line
  static Offer parse(std::string_view text, Identity who);
};

struct Decision {
  std::string_view backend = "tcp";
  // The ranks may be on several hosts: they are on several nodes, or a node's ranks do not share a
  // machine and a network. Equal machines prove nothing for several nodes (copies of a virtual
  // machine).
  bool leaves_host = false;
  // Why ranks that share a node and may choose do not share memory; empty if they do, or if no two
  // ranks share a node.
  std::string obstacle{};
};

// A pure function of all ranks' offers, by rank. Throws kMismatch if ranks were asked for different
// backends, and kConnection if the requested one is impossible.
Decision decide(std::span<const Offer> offers);

struct Choice {
  std::string_view backend = "tcp";
  bool leaves_host = false;     // see Decision
  Ref<SegmentLease> segment{};  // for GroupOptions, if the backend needs it
};

// Collective: every rank of `roster` calls it. Rank 0 logs an obstacle. Throws what decide() and
// await_record() throw.
Choice choose_backend(const RosterOptions& roster, const std::string& asked,
                      const std::string& node, std::uint64_t generation, Deadline deadline);

}  // namespace dl::collectives
