// The cores of a machine that a job may use: ranks are bound to them.
//
// hwloc reads them. It is opened only for --bind, because dlrun itself links only the C library.
#pragma once

#include <string>
#include <vector>

namespace dl::launcher {

struct Core {
  int socket = 0;         // numbers from 0, in hwloc's logical order
  int numa_node = 0;      // as the system numbers them
  std::vector<int> cpus;  // its usable hardware threads, ascending; never empty
};

// Cores in hwloc's logical order: neighbours in this list are near each other.
struct Topology {
  std::vector<Core> cores;
};

// The cores to which the hardware threads `cpus` belong. `synthetic`: a machine in hwloc's notation
// ("package:2 numa:1 core:4 pu:2") in place of this one; its CPUs have hwloc's logical numbers.
// Throws kNotFound if hwloc is not installed, kIo if it cannot read the machine.
Topology read_topology(const std::vector<int>& cpus, const std::string& synthetic = "");

}  // namespace dl::launcher
