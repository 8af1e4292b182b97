// Lists of ranks, as sentences have them. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dl::rendezvous {

// All ranks in their order: "rank 3", "ranks 0 and 2", "ranks 0, 2-7 and 9".
std::string rank_list(std::vector<int> ranks);

// Ranks of a group of `size`: "rank 1 of 4", "ranks 1 and 3 of 4". A long list ends with "and 12
// more of 64".
std::string ranks_of(std::vector<int> ranks, int size);
// The number in the job of a rank of a group; -1: `job_ranks`, by rank, does not have it.
int rank_in_job(const std::vector<int>& job_ranks, int rank);
// So, for a group whose ranks have other numbers in the job, which errors name: "ranks 2 and 5 of
// the job". `job_ranks`: by rank. Empty: they are not known, "ranks 1 and 3 of the group"; nullopt:
// they are the same.
std::string ranks_of(std::vector<int> ranks, int size,
                     const std::optional<std::vector<int>>& job_ranks);

}  // namespace dl::rendezvous
