#include "launcher/topo/devices.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "core/base/system/machine/cpus.h"
#include "core/base/system/small_file.h"

namespace dl::launcher::topo {
namespace {

namespace fs = std::filesystem;

// The first line of a file; empty if it cannot be read.
std::string line_of(const fs::path& file) {
  return first_line(file.string()).value_or("");
}

std::optional<int> number_of(const fs::path& file) {
  const std::string line = line_of(file);
  int number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end == line.data()) return std::nullopt;
  return number;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

// "0000:17:00.0"
bool is_pci_address(std::string_view name) {
  constexpr std::string_view kForm = "hhhh:hh:hh.h";
  if (name.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_digit =
        std::string_view("0123456789abcdef").find(name[i]) != std::string_view::npos;
    if (kForm[i] == 'h' ? !is_digit : name[i] != kForm[i]) return false;
  }
  return true;
}

// Fills in the place of the device whose folder in /sys is `link`.
void find_place(const fs::path& link, Device& device) {
  std::error_code error;
  const fs::path folder = fs::canonical(link, error);
  if (error) return;
  fs::path at;
  fs::path of_device;
  for (const fs::path& part : folder) {
    at /= part;
    const std::string name = part.string();
    if (name.starts_with("pci") && name.find(':') != std::string::npos) {
      device.bridges.push_back(name);
    } else if (is_pci_address(name)) {
      if (!device.pci.empty()) device.bridges.push_back(device.pci);
      device.pci = name;
      of_device = at;
    }
  }
  if (of_device.empty()) return;
  device.numa_node = number_of(of_device / "numa_node").value_or(-1);
  device.cpus = parse_cpu_list(line_of(of_device / "local_cpulist"));
}

// The driver's name for the GPU, or the numbers on the PCI bus.
std::string model_of_gpu(const std::string& root, const fs::path& folder) {
  std::ifstream in(root + "/proc/driver/nvidia/gpus/" + folder.filename().string() +
                   "/information");
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kModel = "Model:";
    if (!line.starts_with(kModel)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", kModel.size());
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "NVIDIA GPU " + line_of(folder / "device") + ", without the driver";
}

void add_gpus(const std::string& root, std::vector<Device>& devices) {
  int number = 0;
  for (const fs::path& folder : entries_of(root + "/sys/bus/pci/devices")) {
    const std::string pci_class = line_of(folder / "class");
    const bool is_display = pci_class.starts_with("0x0300") || pci_class.starts_with("0x0302");
    if (!is_display || line_of(folder / "vendor") != "0x10de") continue;
    Device gpu{.kind = DeviceKind::kGpu,
               .name = fmt::format("GPU{}", number++),
               .model = model_of_gpu(root, folder)};
    find_place(folder, gpu);
    devices.push_back(std::move(gpu));
  }
}

std::string state_of_interface(const fs::path& folder) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  };
  const int speed = number_of(folder / "speed").value_or(-1);  // -1 while there is no link
  if (speed > 0) add(fmt::format("{} Mb/s", speed));
  if (const auto mtu = number_of(folder / "mtu")) add(fmt::format("MTU {}", *mtu));
  add(line_of(folder / "operstate"));
  return text;
}

// Interfaces without a device (lo, bridges, tunnels) have no place.
void add_networks(const std::string& root, std::vector<Device>& devices) {
  for (const fs::path& folder : entries_of(root + "/sys/class/net")) {
    std::error_code error;
    if (!fs::exists(folder / "device", error)) continue;
    Device network{.kind = DeviceKind::kNetwork,
                   .name = folder.filename().string(),
                   .model = state_of_interface(folder)};
    find_place(folder / "device", network);
    devices.push_back(std::move(network));
  }
  for (const fs::path& folder : entries_of(root + "/sys/class/infiniband")) {
    Device network{.kind = DeviceKind::kInfiniBand,
                   .name = folder.filename().string(),
                   .model = line_of(folder / "ports/1/rate")};
    find_place(folder / "device", network);
    devices.push_back(std::move(network));
  }
}

}  // namespace

void add_nv_links(const std::vector<Gpu>& gpus, std::vector<Device>& devices) {
  for (Device& device : devices) {
    const auto same = std::ranges::find_if(
        gpus, [&](const Gpu& gpu) { return !gpu.pci.empty() && gpu.pci == device.pci; });
    if (same != gpus.end()) device.nv_links = same->nv_links;
  }
}

std::vector<Device> read_devices(const std::string& root) {
  std::vector<Device> devices;
  add_gpus(root, devices);
  add_networks(root, devices);
  return devices;
}

}  // namespace dl::launcher::topo
