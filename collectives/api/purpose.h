// Exchanges that a group makes for a call of the program's, so that errors name that call. Any
// thread.
#pragma once

#include <cstdint>

#include "collectives/api/process_group.h"
#include "collectives/call/checks.h"

namespace dl::collectives {

// Starts an all_gather or all_gatherv. `purpose`: kForSplit and so on.
template <typename Options>
Ref<Work> start_for(std::int32_t purpose, ProcessGroup& group, const Options& options) {
  Call call = checked(options, group.rank(), group.size());
  call.what.root = purpose;
  return group.start(call);
}

}  // namespace dl::collectives
