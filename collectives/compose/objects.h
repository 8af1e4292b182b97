// Byte strings whose lengths the other ranks do not know, and a barrier that names missing ranks.
// These helpers block, and are made of a group's operations. They correspond to PyTorch's
// all_gather_object and so on, but the caller encodes the objects.
//
// They are collective: all ranks call them in the same order as the group's other operations. They
// throw what the group throws. Thread-safety: process_group.h.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/api/process_group.h"

namespace dl::collectives {

// Every rank's bytes, by rank, on every rank.
std::vector<std::string> all_gather_bytes(ProcessGroup& group, std::string_view bytes,
                                          const CallOptions& call = {});
// Every rank's bytes, by rank, on the root; empty elsewhere.
std::vector<std::string> gather_bytes(ProcessGroup& group, std::string_view bytes, int root,
                                      const CallOptions& call = {});
// The root's bytes, on every rank; other ranks' `bytes` are not read.
std::string broadcast_bytes(ProcessGroup& group, std::string_view bytes, int root,
                            const CallOptions& call = {});
// parts[rank] of the root. `parts` has one string for each rank on the root, and is not read
// elsewhere.
std::string scatter_bytes(ProcessGroup& group, const std::vector<std::string>& parts, int root,
                          const CallOptions& call = {});

// Returns once all ranks have called it. At the deadline, every rank that has called it throws
// kTimeout with the name of each missing rank. The group is then broken, as after any other error.
void monitored_barrier(ProcessGroup& group, std::chrono::nanoseconds timeout);

}  // namespace dl::collectives
