// Group's split: the parent carries the new groups' addresses, and its inner group is split alike.
#include "collectives/split.h"

#include "collectives/shm/group.h"
#include "collectives/solo/solo_group.h"

namespace dl::collectives::shm {

Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  const SplitPlan plan = plan_split(*this, o, next_split_++);
  ShmGroupOptions options = how_;
  options.timeout = o.timeout.value_or(timeout_);
  options.messages = core_->messages().split(
      {.color = o.color, .key = o.key, .name = plan.name, .timeout = options.timeout});
  SplitStore store(*this);
  if (plan.rank < 0 || plan.members.size() == 1) {
    store.pass();
    if (plan.rank < 0) return nullptr;
    return make_solo_group(plan.name);
  }
  options.rank = plan.rank;
  options.size = static_cast<int>(plan.members.size());
  options.name = plan.name;
  options.store = &store;
  try {
    return make_shm_group(options);
  } catch (const std::exception& error) {
    // The others wait for this rank, in the parent or for its connections.
    abort(fmt::format("split into group '{}' failed: {}", plan.name, error.what()));
    throw;
  }
}

}  // namespace dl::collectives::shm
