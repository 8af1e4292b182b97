#include "launcher/preempt/preemption.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dl::launcher {

bool Preemption::request(std::string why) {
  if (std::exchange(requested_, true)) return false;
  why_ = std::move(why);
  return true;
}

std::uint64_t Preemption::most_calls(std::span<const RankCalls> ranks) {
  std::uint64_t most = 0;
  for (const RankCalls& rank : ranks) most = std::max(most, rank.calls);
  return most;
}

std::vector<RankCalls> Preemption::not_there(std::span<const RankCalls> ranks) const {
  std::vector<RankCalls> missing;
  for (const RankCalls& rank : ranks) {
    if (!call_ || rank.calls < *call_) missing.push_back(rank);
  }
  return missing;
}

std::string Preemption::complaint(std::span<const RankCalls> ranks) const {
  constexpr std::size_t kMostNamed = 16;
  const std::vector<RankCalls> missing = not_there(ranks);
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kMostNamed); ++i) {
    const auto& [rank, calls] = missing[i];
    if (i > 0) names += ", ";
    if (calls == 0) {
      names += fmt::format("rank {} has never called should_checkpoint()", rank);
    } else if (call_) {
      names +=
          fmt::format("rank {} made {} of {} calls of should_checkpoint()", rank, calls, *call_);
    } else {
      names += fmt::format("rank {} has no answer, as other nodes are silent", rank);
    }
  }
  if (missing.size() > kMostNamed) names += fmt::format(", {} more", missing.size() - kMostNamed);
  return "not saved: " + names;
}

Preemption::Outcome Preemption::outcome(std::span<const RankCalls> ranks) const {
  if (!call_) return Outcome::kNone;
  const std::size_t missing = not_there(ranks).size();
  if (missing > 0 && missing == ranks.size()) return Outcome::kNone;
  return missing == 0 ? Outcome::kSaved : Outcome::kPartly;
}

}  // namespace dl::launcher
