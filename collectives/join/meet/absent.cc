#include "collectives/join/meet/absent.h"

#include <algorithm>
#include <utility>

#include "collectives/call/descriptor.h"
#include "core/base/text/name_list.h"
#include "rendezvous/net/rank_list.h"

namespace dl::collectives::meet {
namespace {

// The numbers of all ranks in the job. Those of absent ranks may be mixed up among these.
std::vector<int> completed(const ExchangeOptions& o, const std::vector<int>& absent) {
  std::vector<int> numbers = o.job_ranks;
  std::vector<int> free;  // numbers that no rank has told
  for (int number = 0; number < std::ssize(numbers); ++number) {
    if (std::ranges::find(o.job_ranks, number) == o.job_ranks.end()) free.push_back(number);
  }
  if (std::ranges::count(o.job_ranks, -1) != std::ssize(free)) return numbers;
  const auto is_unknown = [&](int rank) { return job_rank_of(o, rank) < 0; };
  // A rank that is not absent may have come without having told its number.
  if (std::ranges::count_if(absent, is_unknown) != std::ssize(free)) return numbers;
  auto next = free.begin();
  for (const int rank : absent) {
    if (is_unknown(rank)) numbers[static_cast<std::size_t>(rank)] = *next++;
  }
  return numbers;
}

}  // namespace

int job_rank_of(const ExchangeOptions& options, int rank) {
  return rendezvous::rank_in_job(options.job_ranks, rank);
}

std::string ranks_text(const ExchangeOptions& options, const std::vector<int>& ranks) {
  return rendezvous::ranks_of(ranks, options.size, options.job_ranks);
}

Absent absent_of(const ExchangeOptions& o, const std::vector<int>& ranks) {
  if (ranks.empty()) return {};
  const std::vector<int> numbers = completed(o, ranks);
  const auto first = static_cast<std::size_t>(ranks.front());
  Absent absent{.count = ranks.size(), .first = first < numbers.size() ? numbers[first] : -1};
  if (o.names.empty()) {
    absent.list = rendezvous::ranks_of(ranks, o.size, numbers);
  } else {
    std::vector<std::string> names;
    for (const int rank : ranks) names.push_back(o.names[static_cast<std::size_t>(rank)]);
    absent.list = fmt::format("{} of {}", detail::name_list(names), o.size);
  }
  return absent;
}

GroupError late_error(const ExchangeOptions& o, const Absent& absent) {
  return GroupError(
      {.kind = ErrorKind::kTimeout,
       .blame = Blame::kMissing,
       .rank = absent.first,
       .text = fmt::format("group '{}': {} {} not come within {} s; {}", o.group, absent.list,
                           detail::has_or_have(absent.count), seconds_text(o.timeout), o.hint)});
}

std::string twice_text(const std::string& group, int rank, const std::string& first,
                       const std::string& second) {
  return fmt::format(
      "group '{}': {} and {} have both come as rank {}; give each process a number of its own",
      group, first, second, rank);
}

}  // namespace dl::collectives::meet
