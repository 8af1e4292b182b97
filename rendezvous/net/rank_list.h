// Lists of ranks, as sentences have them. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

namespace dl::rendezvous {

// All ranks in their order: "rank 3", "ranks 0 and 2", "ranks 0, 2-7 and 9".
std::string rank_list(std::vector<int> ranks);

// Ranks of a group of `size`: "rank 1 of 4", "ranks 1 and 3 of 4". A long list ends with "and 12
// more of 64".
std::string ranks_of(std::vector<int> ranks, int size);

}  // namespace dl::rendezvous
