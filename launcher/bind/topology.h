// The cores of a machine that a job may use: ranks are bound to them.
//
// hwloc reads them. It is opened only when it is needed, because dlrun itself links only the C
// library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher {

struct Core {
  int socket = 0;         // numbers from 0, in hwloc's logical order
  int numa_node = 0;      // as the system numbers them
  std::vector<int> cpus;  // its usable hardware threads, ascending; never empty
};

struct NumaNode {
  int number = 0;  // as the system numbers them
  int socket = 0;
  std::uint64_t bytes = 0;  // of memory
};

// Caches of one level, without those for instructions alone.
struct CacheLevel {
  int level = 0;
  std::uint64_t bytes = 0;  // of one of them
  int count = 0;
};

// Cores in hwloc's logical order: neighbours in this list are near each other.
struct Topology {
  std::vector<Core> cores;
  std::vector<std::string> sockets{};  // the name of each socket's CPU; may be empty
  std::vector<NumaNode> numa_nodes{};
  std::vector<CacheLevel> caches{};  // from L1 on
};

// The cores to which the hardware threads `cpus` belong. `synthetic`: a machine in hwloc's notation
// ("package:2 numa:1 core:4 pu:2") in place of this one; its CPUs have hwloc's logical numbers.
// `user`: what needs it, for errors. Throws kNotFound if hwloc is not installed, kIo if it cannot
// read the machine.
Topology read_topology(const std::vector<int>& cpus, const std::string& synthetic = "",
                       std::string_view user = "--bind");

}  // namespace dl::launcher
