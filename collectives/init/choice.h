// Choice: which backend the ranks of a job use.
//
// Every rank publishes the backend that it was asked for, its node, and what it needs to share
// memory. All ranks read all offers and reach the same decision (docs/protocol.md, "Choice of a
// backend"). Any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/join/group_options.h"
#include "collectives/join/roster.h"
#include "core/base/deadline.h"
#include "core/base/lifetime/ref.h"

namespace dl::collectives {

// The backend to ask for: "tcp" for "auto" if an algorithm is asked for, as only tcp and mpi have a
// choice of them. Throws kInvalidArgument for an unknown backend, and for one without that choice.
std::string backend_for(const std::string& asked, const std::string& algorithm);

// What one rank offers.
struct Offer {
  Identity who{};
  std::string asked{};  // "auto", "tcp", "shm" or "hybrid"
  // Ranks can share memory only within one kernel, one network namespace and one user.
  std::string kernel{};
  std::string network{};
  std::string user{};
  std::string lacks{};  // why it could not reserve memory to share; empty: it could

  std::string text() const;  // one line
  static Offer parse(std::string_view text, Identity who);
};

struct Decision {
  std::string_view backend = "tcp";
  // True if the ranks may be on several hosts: they are on several nodes, or the ranks of a node do
  // not share a kernel and a network. Equal kernels on several nodes prove nothing, because copies
  // of a virtual machine have equal ones.
  bool leaves_host = false;
  // Why `auto` chose TCP although ranks share a node; empty if memory is shared, if no two ranks
  // share a node, or if TCP was asked for.
  std::string obstacle{};
};

// A pure function of all ranks' offers, by rank. Throws kMismatch if ranks were asked for different
// backends, and kConnection if the requested one is impossible.
Decision decide(std::span<const Offer> offers);

struct Choice {
  std::string_view backend = "tcp";
  bool leaves_host = false;       // see Decision
  Ref<SegmentLease> segment{};    // for GroupOptions, if the backend needs it
  std::vector<Record> records{};  // by rank
};

// Collective: every rank of the group calls it. `address`: of this rank's Place, which the others
// find in its record. If there is an obstacle, rank 0 logs it. Throws what decide() and
// await_record() throw.
Choice choose_backend(const GroupOptions& how, const std::string& asked, const std::string& address,
                      Deadline deadline);

}  // namespace dl::collectives
