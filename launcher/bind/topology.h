// The cores of a machine, as far as a job may use them: what ranks are bound to.
//
// hwloc reads them; it is opened for --bind alone, as dlrun itself links the C library
// alone.
#pragma once

#include <string>
#include <vector>

namespace dl::launcher {

struct Core {
  int socket = 0;         // numbers from 0, in hwloc's logical order
  int numa_node = 0;      // as the system numbers them
  std::vector<int> cpus;  // its hardware threads that may be used, ascending; never empty
};

// Cores in hwloc's logical order: neighbours in this list are near each other.
struct Topology {
  std::vector<Core> cores;
};

// The cores that `cpus` are hardware threads of. `synthetic`: a machine in hwloc's notation
// ("package:2 numa:1 core:4 pu:2") in place of this one; its CPUs have hwloc's logical numbers.
// Throws kNotFound if hwloc is not installed, and kIo if it cannot read the machine.
Topology read_topology(const std::vector<int>& cpus, const std::string& synthetic = "");

}  // namespace dl::launcher
