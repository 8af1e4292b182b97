#include "rendezvous/net/rank_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/base/text/name_list.h"

namespace dl::rendezvous {
namespace {

// Successive numbers.
struct Run {
  int first;
  int last;
};

// At most `most` runs of the ranks.
std::string list_of_runs(std::vector<int> ranks, std::size_t most) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<Run> runs;
  for (const int rank : ranks) {
    if (!runs.empty() && runs.back().last + 1 == rank) {
      runs.back().last = rank;
    } else {
      runs.push_back({rank, rank});
    }
  }
  if (runs.size() > most) runs.resize(most);
  std::vector<std::string> names;
  std::size_t named = 0;
  for (const auto& [first, last] : runs) {
    named += static_cast<std::size_t>(last - first + 1);
    names.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + detail::name_list(names, ranks.size() - named);
}

}  // namespace

std::string rank_list(std::vector<int> ranks) {
  const std::size_t all = ranks.size();
  return list_of_runs(std::move(ranks), all);
}

std::string ranks_of(std::vector<int> ranks, int size) {
  return fmt::format("{} of {}", list_of_runs(std::move(ranks), detail::kMostNames), size);
}

int rank_in_job(const std::vector<int>& job_ranks, int rank) {
  const auto i = static_cast<std::size_t>(rank);
  return i < job_ranks.size() ? job_ranks[i] : -1;
}

std::string ranks_of(std::vector<int> ranks, int size,
                     const std::optional<std::vector<int>>& job_ranks) {
  if (!job_ranks) return ranks_of(std::move(ranks), size);
  const auto in_job = [&](int rank) { return rank_in_job(*job_ranks, rank); };
  if (std::ranges::all_of(ranks, [&](int rank) { return in_job(rank) == rank; })) {
    return ranks_of(std::move(ranks), size);
  }
  const bool are_known = std::ranges::all_of(ranks, [&](int rank) { return in_job(rank) >= 0; });
  if (are_known) std::ranges::transform(ranks, ranks.begin(), in_job);
  return fmt::format("{} of the {}", list_of_runs(std::move(ranks), detail::kMostNames),
                     are_known ? "job" : "group");
}

}  // namespace dl::rendezvous
