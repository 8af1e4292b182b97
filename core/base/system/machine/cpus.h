// The CPUs that the launcher has bound this process to.
//
// OpenMP binds the thread that opens its first region to one core, and threads that this thread
// starts inherit the binding: a communication or data thread would share the core of the computing
// thread.
#pragma once

#include <string_view>
#include <vector>

namespace dl {

// Lets the calling thread run on all CPUs of DLRUN_CPUS. Without it, or if the system refuses,
// nothing changes.
void use_all_bound_cpus() noexcept;

// "0-3,8" as numbers, ascending; empty if it is malformed or names a CPU from 65536 on.
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace dl
