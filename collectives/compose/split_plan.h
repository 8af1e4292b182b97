// SplitPlan: the ranks of this rank's new group after a split, and the group's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

// all_gather_bytes() (objects.h) of a group's own: errors name the call that needs it. `purpose`:
// kForSplit and so on.
std::vector<std::string> all_gather_bytes_for(std::int32_t purpose, ProcessGroup& group,
                                              std::string_view bytes, const CallOptions& call = {});

}  // namespace dl::collectives
