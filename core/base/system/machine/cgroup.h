// What the control groups of this process, versions 1 and 2, grant it and have taken from it. Of
// limits each group up to the root counts, and the least is what there is. Nullopt: no limit is
// known. `root` stands for "/" in tests. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dl {

// CPUs: 1.5 means 150 ms of CPU time in 100 ms.
std::optional<double> cpu_quota(const std::string& root = "");

// Bytes that may still be allocated. Unused file pages count as free, because the kernel drops them
// first.
std::optional<std::uint64_t> memory_left_by_cgroup(const std::string& root = "");

// Processes of this process's own group (and, with version 2, of the groups in it) that the kernel
// has killed for want of memory, ever: a limit of a group above or the machine's end counts too.
std::optional<std::uint64_t> memory_kills(const std::string& root = "");

// Processes and threads that the group may have (pids.max).
std::optional<std::uint64_t> pids_limit(const std::string& root = "");

}  // namespace dl
