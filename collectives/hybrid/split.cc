#include "collectives/join/split.h"

#include "collectives/hybrid/group.h"
#include "collectives/shm/shm_group.h"

namespace dl::collectives::hybrid {

// The parent group exchanges the new groups' addresses. Ranks of one node get a group over shared
// memory, ranks on pairwise different nodes one over TCP, others a hybrid one.
Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  const MakePart make = [this](const GroupOptions& part, const SplitPlan& plan,
                               SplitStore& store) -> Ref<ProcessGroup> {
    std::vector<std::string> nodes;
    for (const int member : plan.members) nodes.push_back(core_->all().identity(member).node);
    const std::size_t count = places_of(nodes).nodes.size();
    if (count == 1) return make_shm_group(part);
    if (count == nodes.size()) return make_tcp_group(part);
    return make_group(part, [&store](int round) { store.begin_round(round); });
  };
  return split_group(*this, o, next_split_++, how_, kRounds, make);
}

}  // namespace dl::collectives::hybrid
