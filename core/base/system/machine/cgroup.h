// Limits and kill counts of this process's control groups, versions 1 and 2. A limit is the lowest
// of all groups up to the root; nullopt: no limit is known. Tests pass a `root` instead of "/". Any
// thread may call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dl {

// CPUs: 1.5 means 150 ms of CPU time in 100 ms.
std::optional<double> cpu_quota(const std::string& root = "");

// Bytes that may still be allocated. Inactive file pages count as free, because the kernel drops
// them first.
std::optional<std::uint64_t> memory_left_by_cgroup(const std::string& root = "");

// How many processes of this process's own group (with version 2, also of its subgroups) the kernel
// has ever killed because memory ran out: in the group, in a group above it, or on the machine.
std::optional<std::uint64_t> memory_kills(const std::string& root = "");

// The most processes and threads that the group may have (pids.max).
std::optional<std::uint64_t> pids_limit(const std::string& root = "");

}  // namespace dl
