// Byte strings whose lengths the other ranks do not know, and a barrier that reports: blocking
// helpers made of a group's operations. What PyTorch calls all_gather_object and so on, without a
// choice of encoding: give them what your serialiser makes.
//
// Collective calls, in the same order on all ranks as everything else of the group. They throw what
// the group throws. Thread-safety: process_group.h.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/process_group.h"

namespace dl::collectives {

// Every rank's bytes, by rank, on every rank.
std::vector<std::string> all_gather_bytes(ProcessGroup& group, std::string_view bytes,
                                          const CallOptions& call = {});
// Every rank's bytes, by rank, on the root; empty elsewhere.
std::vector<std::string> gather_bytes(ProcessGroup& group, std::string_view bytes, int root,
                                      const CallOptions& call = {});
// The root's bytes, on every rank; what others give is not read.
std::string broadcast_bytes(ProcessGroup& group, std::string_view bytes, int root,
                            const CallOptions& call = {});
// parts[rank] of the root; `parts` has one for each rank there, and is not read elsewhere.
std::string scatter_bytes(ProcessGroup& group, const std::vector<std::string>& parts, int root,
                          const CallOptions& call = {});

// Returns once all ranks have called it. At the deadline every rank that has called throws kTimeout
// with each rank that has not, and the group is broken, as after any other error.
void monitored_barrier(ProcessGroup& group, std::chrono::nanoseconds timeout);

}  // namespace dl::collectives
