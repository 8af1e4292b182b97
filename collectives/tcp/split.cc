#include "collectives/join/split.h"

#include "collectives/tcp/group.h"

namespace dl::collectives::tcp {

// The parent group exchanges the new groups' addresses, so no store is needed.
Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  GroupOptions how = how_;
  how.engine = engine_;
  return split_group(
      *this, o, next_split_++, std::move(how), 1,
      [](const GroupOptions& part, const SplitPlan&, SplitStore&) { return make_tcp_group(part); });
}

}  // namespace dl::collectives::tcp
