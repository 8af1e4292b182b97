#include "collectives/join/split.h"

#include "collectives/compose/objects.h"
#include "collectives/solo/solo_group.h"
#include "core/base/error.h"

namespace dl::collectives {

std::vector<std::string> SplitStore::gather(const std::string& line, Deadline) {
  return all_gather_bytes(parent_, line);
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
