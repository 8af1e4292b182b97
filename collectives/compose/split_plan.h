// SplitPlan: the ranks of this rank's new group after a split, and the group's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"

namespace dl::collectives {

struct SplitPlan {
  int rank = -1;               // in the new group; -1 if this rank joins none
  std::vector<int> members{};  // ranks of the parent, by their rank in the new group
  std::string name{};
};
// Collective over `parent`, blocks. `number`: how many splits the parent has made; it becomes part
// of a derived name. Throws kInvalidArgument for a color below kNoColor.
SplitPlan plan_split(ProcessGroup& parent, const SplitOptions& options, std::uint64_t number);

}  // namespace dl::collectives
