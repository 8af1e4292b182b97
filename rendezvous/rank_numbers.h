// Which rank of a job runs on which node. The rendezvous numbers the ranks, and dlrun shows the
// same numbers before a job starts.
#pragma once

#include <vector>

namespace dl::rendezvous {

// The ranks of each node, by local rank. `slots`: how many each node has.
inline std::vector<std::vector<int>> number_ranks(const std::vector<int>& slots) {
  std::vector<std::vector<int>> ranks(slots.size());
  int next = 0;
  for (std::size_t node = 0; node < slots.size(); ++node) {
    for (int i = 0; i < slots[node]; ++i) ranks[node].push_back(next++);
  }
  return ranks;
}

}  // namespace dl::rendezvous
