#include "collectives/join/split.h"

#include "collectives/shm/group.h"

namespace dl::collectives::shm {

// The parent group exchanges the new groups' addresses, so no store is needed.
Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  return split_group(
      *this, o, next_split_++, how_, 1,
      [](const GroupOptions& part, const SplitPlan&, SplitStore&) { return make_shm_group(part); });
}

}  // namespace dl::collectives::shm
