#include "collectives/join/split.h"

#include "collectives/compose/objects.h"
#include "collectives/solo/solo_group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

[[noreturn]] void refuse(std::string_view call) {
  throw_error(ErrorKind::kInternal, "split: making a group asked its store for {}", call);
}

}  // namespace

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
