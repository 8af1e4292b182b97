// The schedules of all_reduce. Pure functions; any thread.
#pragma once

#include "collectives/algorithms/schedule.h"

namespace dl::collectives {

// Below so many ranks recursive doubling is the direct exchange.
inline constexpr int kLeastRanksToDouble = 4;

// kDirect, kShares, kRing, kDoubling or kHalving. Those that
// let partial sums travel are not for what needs_raw_shares() (reduce.h), nor for Order::kTree.
Schedule all_reduce_schedule(const Descriptor& descriptor, Algorithm algorithm, int rank, int size,
                             bool in_place);

}  // namespace dl::collectives
