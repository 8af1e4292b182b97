// Membership: the constant facts of one rank's membership in a TCP group. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/waiting/wait_policy.h"

namespace dl::collectives::tcp {

struct Membership {
  std::string name;
  std::uint64_t generation = 0;
  int rank = 0;
  std::vector<Identity> ranks;
  WaitPolicy policy{};
  bool reports_failures = true;  // tells this rank's agent whom a failure blames

  int size() const noexcept { return static_cast<int>(ranks.size()); }
  const Identity& who(int r) const noexcept { return ranks[static_cast<std::size_t>(r)]; }
  const Identity& self() const noexcept { return who(rank); }
};

}  // namespace dl::collectives::tcp
