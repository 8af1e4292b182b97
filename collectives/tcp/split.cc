// Group's split: the parent carries the new groups' addresses, so that no store is needed.
#include "collectives/split.h"
#include "collectives/solo/solo_group.h"
#include "collectives/tcp/group.h"

namespace dl::collectives::tcp {

Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  const SplitPlan plan = plan_split(*this, o, next_split_++);
  SplitStore store(*this);
  if (plan.rank < 0 || plan.members.size() == 1) {
    store.pass();
    if (plan.rank < 0) return nullptr;
    return make_solo_group(plan.name);
  }
  TcpGroupOptions options = how_;
  options.rank = plan.rank;
  options.size = static_cast<int>(plan.members.size());
  options.name = plan.name;
  options.store = &store;
  options.timeout = o.timeout.value_or(timeout_);
  options.engine = engine_;
  try {
    return make_tcp_group(options);
  } catch (const std::exception& error) {
    // The others wait for this rank, in the parent or for its connections.
    abort(fmt::format("split into group '{}' failed: {}", plan.name, error.what()));
    throw;
  }
}

}  // namespace dl::collectives::tcp
