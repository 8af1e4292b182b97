#include "collectives/join/split.h"

#include <algorithm>
#include <array>

#include "collectives/call/descriptor.h"
#include "collectives/compose/objects.h"
#include "collectives/solo/solo_group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

constexpr std::size_t kMostNameBytes = 128;

[[noreturn]] void refuse(std::string_view call) {
  throw_error(ErrorKind::kInternal, "split: making a group asked its store for {}", call);
}

}  // namespace

SplitPlan plan_split(ProcessGroup& parent, const SplitOptions& o, std::uint64_t number) {
  DL_CHECK(o.color >= kNoColor, kInvalidArgument,
           "split: color is {}, wanted 0 or more, or kNoColor to join no group", o.color);
  using Wish = std::array<std::int32_t, 2>;  // color, key
  const Wish own{o.color, o.key};
  std::vector<Wish> wishes(static_cast<std::size_t>(parent.size()));
  const AllGatherOptions all{
      .input = own.data(), .output = wishes.data(), .count = own.size(), .dtype = DType::kI32};
  parent.all_gather(all)->synchronize();
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

void SplitStore::exchange(std::string_view key, std::string_view value) {
  // A key contains no newline, because a group's name must not.
  const std::string line = fmt::format("{}\n{}", key, value);
  for (const std::string& text : all_gather_bytes(parent_, line)) {
    const std::size_t end = text.find('\n');
    if (end > 0) values_.emplace(text.substr(0, end), text.substr(end + 1));
  }
  ++exchanged_;
}

void SplitStore::begin_round(int round) {
  round_ = round;
  while (exchanged_ < round) pass();
}

void SplitStore::set(std::string_view key, std::string_view value, Deadline) {
  if (exchanged_ > round_) refuse("a second set()");
  exchange(key, value);
}

std::string SplitStore::get(std::string_view key, Deadline) {
  const auto found = values_.find(key);
  DL_CHECK(found != values_.end(), kMismatch,
           "split: no rank of group '{}' has set '{}'; do all ranks of one color give one name?",
           parent_.name(), key);
  return found->second;
}

std::optional<std::string> SplitStore::try_get(std::string_view, Deadline) {
  refuse("try_get()");
}
void SplitStore::wait(std::span<const std::string>, Deadline) {
  refuse("wait()");
}
std::int64_t SplitStore::add(std::string_view, std::int64_t, Deadline) {
  refuse("add()");
}
rendezvous::Store::Swap SplitStore::compare_and_set(std::string_view,
                                                    const std::optional<std::string>&,
                                                    std::string_view, Deadline) {
  refuse("compare_and_set()");
}
bool SplitStore::erase(std::string_view, Deadline) {
  refuse("erase()");
}
std::vector<rendezvous::Store::Change> SplitStore::watch(std::string_view, std::uint64_t,
                                                         Deadline) {
  refuse("watch()");
}

Ref<ProcessGroup> split_group(ProcessGroup& parent, const SplitOptions& o, std::uint64_t number,
                              GroupOptions how, int rounds, const MakePart& make) {
  const SplitPlan plan = plan_split(parent, o, number);
  SplitStore store(parent);
  Ref<ProcessGroup> part;
  if (plan.members.size() == 1) part = make_solo_group(plan.name);
  if (plan.members.size() > 1) {
    how.job_rank = how.in_job();
    how.known_as = -1;
    how.rank = plan.rank;
    how.size = static_cast<int>(plan.members.size());
    how.name = plan.name;
    how.store = &store;
    how.timeout = o.timeout.value_or(how.timeout);
    try {
      part = make(how, plan, store);
    } catch (const std::exception& error) {
      // The other ranks wait for this one, in the parent or for its connections.
      parent.abort(fmt::format("split into group '{}' failed: {}", plan.name, error.what()));
      throw;
    }
  }
  store.begin_round(rounds);
  return part;
}

}  // namespace dl::collectives
