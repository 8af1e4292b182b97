// The schedules of all_reduce. Pure functions; any thread.
#pragma once

#include "collectives/algorithms/schedule.h"

namespace dl::collectives {

// With fewer ranks recursive doubling is the same as the direct exchange.
inline constexpr int kLeastRanksToDouble = 4;

// `algorithm`: kDirect, kShares, kRing, kDoubling or kHalving. Algorithms that send partial sums
// must not be used if wants_raw_shares() (schedule.h).
Schedule all_reduce_schedule(const Descriptor& descriptor, Algorithm algorithm, int rank, int size,
                             bool in_place);

}  // namespace dl::collectives
