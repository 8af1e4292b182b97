#include "collectives/algorithms/plan.h"

#include <algorithm>
#include <limits>

#include "collectives/algorithms/parts.h"

namespace dl::collectives {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
// Limit for a small operation: the most bytes that leave a rank in the direct exchange, or go down
// each branch of a tree. Above it bandwidth decides.
constexpr std::uint64_t kSmallBytes = 64 * 1024;

// The costs ignore that a ring talks to neighbours only and never waits for a round to end, and so
// favour halving at any size. This bound is a choice, not a measurement.
constexpr std::uint64_t kMostHalved = 1024 * 1024;

bool has(OpKind op, SumClass sums, Algorithm algorithm) noexcept {
  const auto all = algorithms_of(op, sums == SumClass::kRaw);
  return std::ranges::find(all, algorithm) != all.end();
}

Algorithm cheapest(OpKind op, SumClass sums, int ranks, std::uint64_t bytes,
                   const Link& link) noexcept {
  const auto all = algorithms_of(op, sums == SumClass::kRaw);
  return *std::ranges::min_element(all, {}, [&](Algorithm algorithm) {
    const bool is_too_large = algorithm == Algorithm::kHalving && bytes > kMostHalved;
    return is_too_large ? std::numeric_limits<double>::infinity()
                        : cost(op, algorithm, ranks, bytes, link);
  });
}

// The costs decide between all_reduce's algorithms. For other operations it matters that a link
// carries the data of many ranks at once, which the costs ignore: these use fixed sizes.
Algorithm unruled(OpKind op, SumClass sums, int ranks, std::uint64_t bytes,
                  const Link& link) noexcept {
  const bool is_small = bytes <= kSmallBytes / static_cast<std::uint64_t>(std::max(ranks - 1, 1));
  if (row_of(op).scatters_sum() && !row_of(op).is_v_variant()) {
    return is_small || sums == SumClass::kRaw ? Algorithm::kDirect : Algorithm::kRing;
  }
  switch (op) {
    case OpKind::kAllReduce:
      return cheapest(op, sums, ranks, bytes, link);
    case OpKind::kAllGather:
      return is_small ? Algorithm::kDirect : Algorithm::kRing;
    case OpKind::kReduce:
      return is_small                 ? Algorithm::kDirect
             : sums == SumClass::kRaw ? Algorithm::kShares
                                      : Algorithm::kChain;
    case OpKind::kBroadcast:
      return bytes <= kSmallBytes ? Algorithm::kTree : Algorithm::kChain;
    default:
      return algorithms_of(op, false).front();
  }
}

bool fits(const PlanRule& rule, OpKind op, SumClass sums, GroupShape shape) noexcept {
  return rule.op == op && (!rule.sums || *rule.sums == sums) && has(op, sums, rule.algorithm) &&
         (rule.nodes == 0 || rule.nodes == shape.nodes) &&
         (rule.ranks == 0 || rule.ranks == shape.ranks);
}

std::vector<Choices::Step> steps_of(const Plan& plan, OpKind op, SumClass sums, GroupShape shape) {
  std::vector<PlanRule> rules;
  std::ranges::copy_if(plan.rules, std::back_inserter(rules),
                       [&](const PlanRule& rule) { return fits(rule, op, sums, shape); });
  // The choice is constant between two of these sizes. Powers of two are close enough for the
  // costs; rules and fixed sizes are exact.
  std::vector<std::uint64_t> sizes{kMost};
  for (int bit = 0; bit < 48; ++bit) sizes.push_back(std::uint64_t{1} << bit);
  for (const PlanRule& rule : rules) sizes.push_back(rule.up_to);
  if (shape.ranks > 1) sizes.push_back(kSmallBytes / static_cast<std::uint64_t>(shape.ranks - 1));
  std::ranges::sort(sizes);

  const Link& link = plan.link(shape.nodes > 1 ? LinkKind::kEthernet : LinkKind::kLoopback);
  std::vector<Choices::Step> steps;
  for (const std::uint64_t size : sizes) {
    const auto rule =
        std::ranges::find_if(rules, [&](const PlanRule& r) { return size <= r.up_to; });
    const Algorithm algorithm =
        rule != rules.end() ? rule->algorithm : unruled(op, sums, shape.ranks, size, link);
    if (!steps.empty() && steps.back().algorithm == algorithm) {
      steps.back().up_to = size;
    } else {
      steps.push_back({size, algorithm});
    }
  }
  return steps;
}

}  // namespace

SumClass sum_class(const Descriptor& d) noexcept {
  return wants_raw_shares(d) ? SumClass::kRaw : SumClass::kPartial;
}

Choices::Choices(const Plan& plan, GroupShape shape) {
  constexpr std::uint64_t kPrime = 0x100000001b3;  // FNV-1a
  std::uint64_t h = 0xcbf29ce484222325;
  for (std::size_t op = 0; op < kOpKindCount; ++op) {
    for (const SumClass sums : {SumClass::kPartial, SumClass::kRaw}) {
      auto& steps = steps_[op][static_cast<std::size_t>(sums)];
      steps = steps_of(plan, static_cast<OpKind>(op), sums, shape);
      for (const Step& step : steps) {
        h = (h ^ step.up_to) * kPrime;
        h = (h ^ static_cast<std::uint64_t>(step.algorithm)) * kPrime;
      }
    }
  }
  hash_ = std::max<std::uint32_t>(static_cast<std::uint32_t>(h ^ (h >> 32)), 1);
}

Algorithm Choices::choose(const Descriptor& d) const noexcept {
  const std::uint64_t bytes = d.count * size_of(d.dtype);
  const std::span<const Step> all = steps(d.op, sum_class(d));
  return std::ranges::find_if(all, [&](const Step& step) { return bytes <= step.up_to; })
      ->algorithm;
}

Schedule Choices::schedule(Call& call, int rank, int size) const {
  if (has_parts_schedule(call.what.op)) return parts_schedule(call, rank, size);
  if (call.what.op == OpKind::kAllGather) {
    call.input =
        static_cast<std::byte*>(call.output) + call.takes.before(rank) * size_of(call.what.dtype);
  }
  const OpRow& row = call.row();
  const bool in_place = !row.reduces || (row.input == row.output && call.input == call.output);
  return make_schedule(call.what, choose(call.what), rank, size, in_place);
}

std::span<const Choices::Step> Choices::steps(OpKind op, SumClass sums) const noexcept {
  return steps_[static_cast<std::size_t>(op)][static_cast<std::size_t>(sums)];
}

}  // namespace dl::collectives
