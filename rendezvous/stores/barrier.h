// A barrier of ranks over a Store. It names the missing ranks.
//
// Any thread; each rank calls it once for each name.
#pragma once

#include <chrono>
#include <string>

#include "core/base/deadline.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

struct BarrierOfRanks {
  std::string name;  // used once in a store (or in a generation's PrefixStore)
  int rank = 0;
  int size = 1;
  std::string who{};  // this rank in the texts of others, e.g. "node1, pid 4711"
  std::chrono::nanoseconds warn_after = kWarnAfter;
};

// Returns once all ranks 0 .. size-1 have called it. After `warn_after` it logs the missing ranks.
// Throws kTimeout "barrier 'init': rank 0 has waited 10.0 s for ranks 2 and 5 of 8", and what
// the store throws.
void barrier(Store& store, const BarrierOfRanks& options, Deadline deadline);

}  // namespace dl::rendezvous
