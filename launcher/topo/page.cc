#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/text/columns.h"
#include "core/base/text/number.h"
#include "launcher/bind/drawing.h"
#include "launcher/topo/topo.h"

namespace dl::launcher::topo {
namespace {

std::vector<int> cpus_of(const Topology& topology, int numa_node) {
  std::vector<int> cpus;
  for (const Core& core : topology.cores) {
    if (core.numa_node == numa_node) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

std::string node_of(const Device& device) {
  return device.numa_node < 0 ? std::string("-") : fmt::format("{}", device.numa_node);
}
std::string cpus_near(const Device& device) {
  return device.cpus.empty() ? std::string("-") : cpu_list(device.cpus);
}

}  // namespace

std::string amount(std::uint64_t bytes) {
  constexpr double kKiB = 1024;
  const auto size = static_cast<double>(bytes);
  if (size >= kKiB * kKiB * kKiB) return fmt::format("{:.1f} GiB", size / kKiB / kKiB / kKiB);
  if (size >= kKiB * kKiB) return fmt::format("{:.4g} MiB", size / kKiB / kKiB);
  return fmt::format("{:.4g} KiB", size / kKiB);
}

std::vector<int> sockets_of(const Topology& topology) {
  std::set<int> sockets;
  for (const NumaNode& node : topology.numa_nodes) sockets.insert(node.socket);
  for (const Core& core : topology.cores) sockets.insert(core.socket);
  return {sockets.begin(), sockets.end()};
}

std::string name_of_socket(const Topology& topology, int socket) {
  const auto number = static_cast<std::size_t>(socket);
  return number < topology.sockets.size() ? topology.sockets[number] : std::string();
}

std::vector<std::string> page(const HostMap& map) {
  const Topology& topology = map.topology;
  std::vector<int> cpus;
  for (const Core& core : topology.cores) {
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::ranges::sort(cpus);
  // Sockets, NUMA nodes and caches are the host's; cores and CPUs are those of its dlrun.
  std::vector<std::string> lines{fmt::format("{}: {}, {}", map.host,
                                             counted(sockets_of(topology).size(), "socket"),
                                             counted(topology.numa_nodes.size(), "NUMA node"))};
  std::string usable =
      fmt::format("  dlrun may use {}, {} ({})", counted(topology.cores.size(), "core"),
                  counted(cpus.size(), "CPU"), cpu_list(cpus));
  if (map.usable_cores < static_cast<double>(cpus.size())) {
    usable += fmt::format(", of which {:.4g} are granted", map.usable_cores);
  }
  lines.push_back(std::move(usable));
  for (const int socket : sockets_of(topology)) {
    const std::string name = name_of_socket(topology, socket);
    lines.push_back(fmt::format("  socket {}{}{}", socket, name.empty() ? "" : ": ", name));
    for (const NumaNode& node : topology.numa_nodes) {
      if (node.socket != socket) continue;
      const std::vector<int> of_node = cpus_of(topology, node.number);
      std::string line = fmt::format("    NUMA node {}: {}", node.number, amount(node.bytes));
      if (!of_node.empty()) line += fmt::format(", CPUs {}", cpu_list(of_node));
      for (const Device& device : map.devices) {
        if (device.numa_node == node.number) line += ", " + device.name;
      }
      lines.push_back(std::move(line));
    }
  }
  std::vector<std::string> caches;
  for (const CacheLevel& cache : topology.caches) {
    caches.push_back(fmt::format("L{} {} x {}", cache.level, cache.count, amount(cache.bytes)));
  }
  if (!caches.empty()) lines.push_back(fmt::format("  caches: {}", fmt::join(caches, ", ")));
  if (map.devices.empty()) {
    lines.emplace_back("  no GPU and no network interface with a device of its own");
    return lines;
  }
  std::vector<std::vector<std::string>> rows{{"  device", "what", "PCI", "NUMA", "near CPUs"}};
  for (const Device& device : map.devices) {
    rows.push_back({"  " + device.name, device.model.empty() ? "-" : device.model,
                    device.pci.empty() ? "-" : device.pci, node_of(device), cpus_near(device)});
  }
  for (std::string& line : in_columns(rows)) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> matrix(const HostMap& map) {
  std::vector<std::vector<std::string>> rows{{""}};
  std::set<Distance> seen;
  bool has_nv_links = false;
  for (const Device& device : map.devices) rows.front().push_back(device.name);
  rows.front().insert(rows.front().end(), {"CPU affinity", "NUMA affinity"});
  for (const Device& a : map.devices) {
    std::vector<std::string> row{a.name};
    for (const Device& b : map.devices) {
      if (nv_links_between(a, b) > 0) {
        has_nv_links = true;
      } else {
        seen.insert(distance_between(a, b));
      }
      row.push_back(cell(a, b));
    }
    row.insert(row.end(), {cpus_near(a), node_of(a)});
    rows.push_back(std::move(row));
  }
  std::vector<std::string> lines = in_columns(rows);
  lines.emplace_back();
  for (const Distance distance : seen) {
    lines.push_back(fmt::format("{:<4} = {}", word(distance), meaning(distance)));
  }
  if (has_nv_links) lines.emplace_back("NV#  = NVLinks, so many");
  return lines;
}

}  // namespace dl::launcher::topo
