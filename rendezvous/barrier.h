// A barrier of ranks over a Store that names who is missing.
//
// Any thread; each rank calls it once for each name.
#pragma once

#include <string>

#include "core/base/deadline.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

struct BarrierOfRanks {
  std::string name;  // used once in a store (or in a PrefixStore's generation)
  int rank = 0;
  int size = 1;
  std::string who{};  // this rank for texts of others, e.g. "node1, pid 4711"
};

// Returns once all ranks 0 .. size-1 have called it. While it waits it logs, after 5 s, who is
// missing. Throws kTimeout "barrier 'init': rank 0 has waited 10.0 s for rank 2, rank 5 (of 8)",
// and what the store throws.
void barrier(Store& store, const BarrierOfRanks& options, Deadline deadline);

}  // namespace dl::rendezvous
