// `dlrun topo`: what this host looks like: sockets, NUMA nodes, caches, cores, GPUs and network
// interfaces, and how far the devices are from each other. With --hosts the same of other hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/bind/topology.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/topo/devices.h"

namespace dl::launcher::topo {

struct HostMap {
  std::string host;
  Topology topology;        // of the CPUs that its dlrun may use
  double usable_cores = 0;  // what a control group or SLURM grants, if it is less
  std::vector<Device> devices;
};

// A host that was asked by ssh or srun.
struct AskedHost {
  std::string error;  // a sentence that names it: there is no map but for map.host; empty: there is
  HostMap map;
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
std::string json(const std::vector<AskedHost>& hosts);
// The map of which json() has made `text`; NVLinks through switches are read as direct ones. Throws
// kParse with a sentence, also for numbers and lists that no machine has.
HostMap read_map(std::string_view text);
// An SVG picture of the hosts, one below the other.
std::string picture(const std::vector<HostMap>& maps);

// Prints one of these, and returns dlrun's exit code. Throws Error if this host could not be read.
int run(const SubcommandLine& line);

}  // namespace dl::launcher::topo
