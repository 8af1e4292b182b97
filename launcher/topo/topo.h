// `dlrun topo`: what this host looks like: sockets, NUMA nodes, caches, cores, GPUs and network
// interfaces, and how far the devices are from each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/bind/topology.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/topo/devices.h"

namespace dl::launcher::topo {

struct HostMap {
  std::string host;
  Topology topology;        // of the CPUs that this process may use
  double usable_cores = 0;  // what a control group or SLURM grants, if it is less
  std::vector<Device> devices;
};

// "252.4 GiB", "32 MiB"
std::string amount(std::uint64_t bytes);
// The host's sockets, ascending.
std::vector<int> sockets_of(const Topology& topology);
// Its CPU's name; may be empty.
std::string name_of_socket(const Topology& topology, int socket);

// Lines without line breaks.
std::vector<std::string> page(const HostMap& map);
// A row and a column for each device, as `nvidia-smi topo -m` has them, and what its words mean.
std::vector<std::string> matrix(const HostMap& map);
// docs/reference/dlrun.md, "dlrun topo", has the members.
std::string json(const HostMap& map);
// An SVG picture.
std::string picture(const HostMap& map);

// Prints one of these, and returns dlrun's exit code. Throws Error if the host could not be read.
int run(const SubcommandLine& line);

}  // namespace dl::launcher::topo
