#include "launcher/bind/drawing.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/text/number.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kWidth = 96;  // of a line, without what dlrun writes before it

std::vector<int> ranks_on(const Core& core, const std::vector<Binding>& bindings) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const bool is_here = std::ranges::any_of(core.cpus, [&](int cpu) {
      return bindings[i].cpus.empty() || std::ranges::binary_search(bindings[i].cpus, cpu);
    });
    if (is_here) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

}  // namespace

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<std::string> draw_bindings(const Topology& topology,
                                       const std::vector<Binding>& bindings,
                                       const std::string& host) {
  std::set<int> sockets, nodes;
  std::size_t cpus = 0;
  for (const Core& core : topology.cores) {
    sockets.insert(core.socket);
    nodes.insert(core.numa_node);
    cpus += core.cpus.size();
  }
  std::vector<std::string> lines = {
      fmt::format("bindings on {}: {}, {}, {}, {}", host, counted(sockets.size(), "socket"),
                  counted(nodes.size(), "NUMA node"), counted(topology.cores.size(), "core"),
                  counted(cpus, "CPU"))};
  const Core* before = nullptr;
  std::string cores_line, cpus_line, ranks_line;
  const auto flush = [&] {
    if (cores_line.empty()) return;
    lines.push_back("    core " + cores_line);
    lines.push_back("    CPUs " + cpus_line);
    lines.push_back("    rank " + ranks_line);
    cores_line.clear();
    cpus_line.clear();
    ranks_line.clear();
  };
  for (std::size_t i = 0; i < topology.cores.size(); ++i) {
    const Core& core = topology.cores[i];
    if (before == nullptr || before->socket != core.socket || before->numa_node != core.numa_node) {
      flush();
      lines.push_back(fmt::format("  socket {}, NUMA node {}", core.socket, core.numa_node));
    }
    before = &core;
    const std::string number = fmt::format("{}", i);
    const std::string threads = cpu_list(core.cpus);
    const std::vector<int> ranks = ranks_on(core, bindings);
    const std::string who = ranks.empty() ? "-" : cpu_list(ranks);
    const std::size_t width = std::max({number.size(), threads.size(), who.size()}) + 2;
    if (!cores_line.empty() && cores_line.size() + width > kWidth) flush();
    cores_line += fmt::format("{:>{}}", number, width);
    cpus_line += fmt::format("{:>{}}", threads, width);
    ranks_line += fmt::format("{:>{}}", who, width);
  }
  flush();
  return lines;
}

}  // namespace dl::launcher
