// The machine's cores and the ranks that are bound to them, as text (--report-bindings).
#pragma once

#include <string>
#include <vector>

#include "launcher/bind/binding.h"

namespace dl::launcher {

// "0-3,8": as taskset and the kernel write CPUs.
std::string cpu_list(const std::vector<int>& cpus);

// A title and, for each socket and NUMA node, three lines: cores, their CPUs, the local ranks that
// may run on them.
std::vector<std::string> draw_bindings(const Topology& topology,
                                       const std::vector<Binding>& bindings,
                                       const std::string& host);

}  // namespace dl::launcher
