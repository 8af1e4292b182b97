// Computes which rank of a job runs on which node. The rendezvous numbers the ranks this way, and
// dlrun shows the same numbers before a job starts. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dl::rendezvous {

// The order in which the ranks of several nodes are numbered. The names are mpirun's.
enum class RankBy : std::uint8_t {
  kSlot,  // all ranks of a node, then those of the next one
  kNode,  // one rank of each node in turn, until all ranks of the node have a number
};

// The ranks of each node, by local rank; ascending. `slots`: how many each node has.
inline std::vector<std::vector<int>> number_ranks(const std::vector<int>& slots, RankBy by) {
  std::vector<std::vector<int>> ranks(slots.size());
  int next = 0;
  if (by == RankBy::kSlot) {
    for (std::size_t node = 0; node < slots.size(); ++node) {
      for (int i = 0; i < slots[node]; ++i) ranks[node].push_back(next++);
    }
    return ranks;
  }
  for (int before = -1, turn = 0; before != next; ++turn) {
    before = next;
    for (std::size_t node = 0; node < slots.size(); ++node) {
      if (turn < slots[node]) ranks[node].push_back(next++);
    }
  }
  return ranks;
}

}  // namespace dl::rendezvous
