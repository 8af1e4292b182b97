#include <fmt/core.h>

#include <algorithm>

#include "launcher/topo/devices.h"

namespace dl::launcher::topo {

std::string_view word(Distance distance) noexcept {
  constexpr std::string_view kWords[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};
  return kWords[static_cast<std::size_t>(distance)];
}

std::string_view meaning(Distance distance) noexcept {
  constexpr std::string_view kMeanings[] = {"the device itself",
                                            "at most one PCIe switch",
                                            "several PCIe switches, no host bridge",
                                            "a PCIe host bridge",
                                            "PCIe host bridges of one NUMA node",
                                            "the link between NUMA nodes",
                                            "unknown: a device is on no PCI bus"};
  return kMeanings[static_cast<std::size_t>(distance)];
}

Distance distance_between(const Device& a, const Device& b) noexcept {
  if (&a == &b) return Distance::kSelf;
  if (a.bridges.empty() || b.bridges.empty()) return Distance::kUnknown;
  const auto [in_a, in_b] = std::ranges::mismatch(a.bridges, b.bridges);
  const auto common = in_a - a.bridges.begin();
  if (common == 0) {
    return a.numa_node >= 0 && a.numa_node == b.numa_node ? Distance::kNode : Distance::kSystem;
  }
  if (common == 1) return Distance::kHost;
  // A switch has a port of its own above each device.
  const auto own = std::max(a.bridges.end() - in_a, b.bridges.end() - in_b);
  return own <= 1 ? Distance::kSwitch : Distance::kBridges;
}

int nv_links_between(const Device& a, const Device& b) noexcept {
  if (&a == &b) return 0;
  const auto direct = std::ranges::count(a.nv_links, b.pci);
  if (direct > 0) return static_cast<int>(direct);
  // All GPUs of a host are on the same switches.
  return static_cast<int>(std::min(std::ranges::count(a.nv_links, kNvSwitch),
                                   std::ranges::count(b.nv_links, kNvSwitch)));
}

std::string cell(const Device& a, const Device& b) {
  const int links = nv_links_between(a, b);
  return links > 0 ? fmt::format("NV{}", links) : std::string(word(distance_between(a, b)));
}

}  // namespace dl::launcher::topo
