#include <fmt/core.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/process/start/program.h"
#include "launcher/topo/topo.h"

namespace dl::launcher::topo {
namespace {

constexpr const char* kHelp =
    "Usage: dlrun topo [-m | --json | --svg]\n"
    "\n"
    "Shows this host: sockets, NUMA nodes, caches, the cores that this process may use, GPUs and\n"
    "network interfaces. Of other hosts: dlrun --hosts a:1,b:1 dlrun topo\n"
    "\n"
    "  -m, --matrix  how far the devices are from each other, in the words of nvidia-smi topo -m\n"
    "  --json        all of it as JSON\n"
    "  --svg         a picture, for a file: dlrun topo --svg > host.svg\n"
    "  -h, --help    print this and exit\n"
    "\n"
    "Exit code: 0; 1 the host could not be read; 2 bad usage. (A program of this name: dlrun -- "
    "topo.)\n";

HostMap read_host() {
  const Machine machine = this_machine();
  HostMap map{.host = machine.host,
              .topology = read_topology(machine.cpus, "", "dlrun topo"),
              .usable_cores = machine.quota.value_or(static_cast<double>(machine.cpus.size())),
              .devices = read_devices()};
  try {
    add_nv_links(find_gpus(), map.devices);
  } catch (const Error& error) {
    write_error(fmt::format("dlrun: without NVLinks: {}\n", printable(error.what())));
  }
  return map;
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", printable(line));
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  std::string form;
  for (const std::string& argument : arguments) {
    if (argument == "-h" || argument == "--help") {
      fmt::print("{}", kHelp);
      return 0;
    }
    const std::string chosen = argument == "-m" ? "--matrix" : argument;
    if (chosen != "--matrix" && chosen != "--json" && chosen != "--svg") {
      write_error(
          fmt::format("dlrun: topo does not know `{}`; `dlrun topo --help` lists its options\n",
                      printable(argument)));
      return kExitUsage;
    }
    if (!form.empty() && form != chosen) {
      write_error(fmt::format("dlrun: topo shows one of {} and {}\n", form, chosen));
      return kExitUsage;
    }
    form = chosen;
  }
  try {
    const HostMap map = read_host();
    if (form == "--matrix") {
      print(matrix(map));
    } else if (form == "--json") {
      fmt::print("{}\n", json(map));
    } else if (form == "--svg") {
      fmt::print("{}", picture(map));
    } else {
      print(page(map));
    }
  } catch (const Error& error) {
    write_error(fmt::format("dlrun: {}\n", printable(error.what())));
    return 1;
  }
  return 0;
}

}  // namespace dl::launcher::topo
