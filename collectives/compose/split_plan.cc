#include "collectives/compose/split_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "collectives/api/purpose.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

constexpr std::size_t kMostNameBytes = 128;

}  // namespace

SplitPlan plan_split(ProcessGroup& parent, const SplitOptions& o, std::uint64_t number) {
  DL_CHECK(o.color >= kNoColor, kInvalidArgument,
           "split: color is {}, wanted 0 or more, or kNoColor to join no group", o.color);
  using Wish = std::array<std::int32_t, 2>;  // color, key
  const Wish own{o.color, o.key};
  std::vector<Wish> wishes(static_cast<std::size_t>(parent.size()));
  const AllGatherOptions all{
      .input = own.data(), .output = wishes.data(), .count = own.size(), .dtype = DType::kI32};
  start_for(kForSplit, parent, all)->synchronize();
  SplitPlan plan;
  if (o.color == kNoColor) return plan;
  for (int r = 0; r < parent.size(); ++r) {
    if (wishes[static_cast<std::size_t>(r)][0] == o.color) plan.members.push_back(r);
  }
  std::sort(plan.members.begin(), plan.members.end(), [&](int a, int b) {
    const int a_key = wishes[static_cast<std::size_t>(a)][1];
    const int b_key = wishes[static_cast<std::size_t>(b)][1];
    return a_key != b_key ? a_key < b_key : a < b;
  });
  const auto place = std::find(plan.members.begin(), plan.members.end(), parent.rank());
  plan.rank = static_cast<int>(place - plan.members.begin());
  plan.name = o.name;
  if (!plan.name.empty()) return plan;
  plan.name = fmt::format("{}.{}.{}", parent.name(), number, o.color);
  if (plan.name.size() > kMostNameBytes) {
    plan.name = fmt::format("{:016x}", hash_of_group(plan.name, 0));
  }
  return plan;
}

}  // namespace dl::collectives
