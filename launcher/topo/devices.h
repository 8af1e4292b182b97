// GPUs and network interfaces of this host, and how far they are from each other, as the kernel's
// /sys tells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/machine/gpus.h"

namespace dl::launcher::topo {

enum class DeviceKind : std::uint8_t { kGpu, kNetwork, kInfiniBand };

struct Device {
  DeviceKind kind = DeviceKind::kNetwork;
  std::string name{};   // "GPU0", "eth0", "mlx5_0"
  std::string model{};  // "NVIDIA H200", "25000 Mb/s, MTU 9000, up"; empty if unknown
  std::string pci{};    // "0000:17:00.0"; empty: not on a PCI bus
  // The host bridge and the PCI bridges above it, from the CPU on.
  std::vector<std::string> bridges{};
  int numa_node = -1;       // as the system numbers them; -1: none
  std::vector<int> cpus{};  // the CPUs near it, ascending; empty: unknown
  // Gpu::nv_links of the GPU; empty if the driver was not asked.
  std::vector<std::string> nv_links{};
};

// What lies between two devices, nearest first, with nvidia-smi's words.
enum class Distance : std::uint8_t {
  kSelf,     // X
  kSwitch,   // PIX: at most one PCIe switch
  kBridges,  // PXB: several PCIe switches, but no host bridge
  kHost,     // PHB: a host bridge
  kNode,     // NODE: host bridges of one NUMA node
  kSystem,   // SYS: the link between NUMA nodes
  kUnknown,  // ?: a device is on no PCI bus
};
std::string_view word(Distance distance) noexcept;
std::string_view meaning(Distance distance) noexcept;
// kSelf if both are the same object.
Distance distance_between(const Device& a, const Device& b) noexcept;

// NVLinks between two GPUs, directly or through switches; 0: none.
int nv_links_between(const Device& a, const Device& b) noexcept;
// "NV18", or the word for their distance on the PCI bus, as `nvidia-smi topo -m` shows two devices.
std::string cell(const Device& a, const Device& b);

// Fills in what the driver says of the GPUs with the same PCI addresses.
void add_nv_links(const std::vector<Gpu>& gpus, std::vector<Device>& devices);

// GPUs by PCI address, as the driver numbers them by default, then networks by name. What cannot be
// read is left out. `root` stands for "/".
std::vector<Device> read_devices(const std::string& root = "");

}  // namespace dl::launcher::topo
