#include "launcher/plan/machine/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "launcher/process/ask/child_answer.h"

namespace dl::launcher {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr std::string_view kNoLibrary = "no library";

// The few functions of NVML that are used; their binary interface has not changed since driver 450.
struct Nvml {
  using Device = void*;
  enum : int { kSuccess = 0, kNoPermission = 4, kNotFound = 6, kDriverNotLoaded = 9 };
  struct PciInfo {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
  };
  static constexpr unsigned kMostLinks = 18;
  static constexpr int kSwitch = 2;  // a kind of device at the end of an NVLink

  int (*init)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
  int (*most_instances)(Device, unsigned*) = nullptr;
  int (*instance)(Device, unsigned, Device*) = nullptr;
  // Null in drivers that have no such function.
  int (*pci)(Device, void* info) = nullptr;  // a PciInfo
  int (*link_state)(Device, unsigned link, int* is_up) = nullptr;
  int (*link_end)(Device, unsigned link, void* info) = nullptr;
  int (*link_end_kind)(Device, unsigned link, int*) = nullptr;

  // The name of a missing function, or nullptr.
  const char* load(void* library) {
    const char* missing = nullptr;
    const auto find = [&](const char* symbol, auto& into) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(::dlsym(library, symbol));
      if (into == nullptr && missing == nullptr) missing = symbol;
    };
    find("nvmlInit_v2", init);
    find("nvmlErrorString", error_string);
    find("nvmlDeviceGetCount_v2", count);
    find("nvmlDeviceGetHandleByIndex_v2", device);
    find("nvmlDeviceGetUUID", uuid);
    find("nvmlDeviceGetName", name);
    find("nvmlDeviceGetMigMode", mig_mode);
    find("nvmlDeviceGetMaxMigDeviceCount", most_instances);
    find("nvmlDeviceGetMigDeviceHandleByIndex", instance);
    const char* const needed = missing;
    find("nvmlDeviceGetPciInfo_v3", pci);
    find("nvmlDeviceGetNvLinkState", link_state);
    find("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_end);
    find("nvmlDeviceGetNvLinkRemoteDeviceType", link_end_kind);
    return needed;
  }
};

// As /sys writes it.
std::string address_of(const Nvml::PciInfo& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

std::string pci_of(const Nvml& nvml, Nvml::Device device) {
  Nvml::PciInfo pci{};
  if (nvml.pci == nullptr || nvml.pci(device, &pci) != Nvml::kSuccess) return "";
  return address_of(pci);
}

// A line for each link.
std::string links_of(const Nvml& nvml, Nvml::Device device) {
  std::string lines;
  if (nvml.link_state == nullptr || nvml.link_end == nullptr) return lines;
  for (unsigned link = 0; link < Nvml::kMostLinks; ++link) {
    int is_up = 0;
    if (nvml.link_state(device, link, &is_up) != Nvml::kSuccess || is_up == 0) continue;
    int kind = -1;
    const bool is_known =
        nvml.link_end_kind != nullptr && nvml.link_end_kind(device, link, &kind) == Nvml::kSuccess;
    Nvml::PciInfo end{};
    if (is_known && kind == Nvml::kSwitch) {
      lines += fmt::format("link\t{}\n", kNvSwitch);
    } else if (nvml.link_end(device, link, &end) == Nvml::kSuccess) {
      lines += fmt::format("link\t{}\n", address_of(end));
    }
  }
  return lines;
}

std::string text_of(int (*get)(Nvml::Device, char*, unsigned), Nvml::Device device) {
  char text[128] = {};
  if (get(device, text, sizeof text - 1) != Nvml::kSuccess) return "";
  std::string line = text;
  std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

// Writes what gpus_of_answer() reads. Runs in the child.
std::string ask_driver() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fmt::format("error\t{}\n", kNoLibrary);
  Nvml nvml;
  if (const char* const missing = nvml.load(library)) {
    return fmt::format("error\t{} has no {}: the driver is too old\n", kLibrary, missing);
  }
  const auto failed = [&](const char* what, int code) {
    return fmt::format("error\t{}: {}\n", what, nvml.error_string(code));
  };
  const int started = nvml.init();
  if (started == Nvml::kDriverNotLoaded) return "end\n";  // a library without a GPU
  if (started != Nvml::kSuccess) return failed("nvmlInit", started);
  unsigned count = 0;
  if (const int code = nvml.count(&count)) return failed("nvmlDeviceGetCount", code);
  std::string answer;
  for (unsigned i = 0; i < count; ++i) {
    Nvml::Device device = nullptr;
    const int code = nvml.device(i, &device);
    if (code == Nvml::kNoPermission) continue;  // the control group keeps it from this process
    if (code != Nvml::kSuccess) {
      return fmt::format("error\tGPU {}: {}\n", i, nvml.error_string(code));
    }
    unsigned mode = 0, pending = 0;
    const bool partitioned = nvml.mig_mode(device, &mode, &pending) == Nvml::kSuccess && mode == 1;
    answer += fmt::format("gpu\t{}\t{}\t{}\t{}\n", text_of(nvml.uuid, device),
                          text_of(nvml.name, device), partitioned ? 1 : 0, pci_of(nvml, device));
    answer += links_of(nvml, device);
    unsigned most = 0;
    if (!partitioned || nvml.most_instances(device, &most) != Nvml::kSuccess) continue;
    for (unsigned j = 0; j < most; ++j) {
      Nvml::Device instance = nullptr;
      if (nvml.instance(device, j, &instance) != Nvml::kSuccess)
        continue;  // not every slot is used
      answer += fmt::format("mig\t{}\n", text_of(nvml.uuid, instance));
    }
  }
  return answer + "end\n";
}

// "Model: \t\t NVIDIA H200" -> "NVIDIA H200"
std::string value_of(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
  return begin == std::string::npos ? ""
                                    : line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

std::vector<Gpu> gpus_of_proc(const std::string& root) {
  // One folder a GPU, named by its place on the bus, which is the driver's order.
  std::vector<std::filesystem::path> folders;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", none)) {
    folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<Gpu> gpus;
  for (const std::filesystem::path& folder : folders) {
    Gpu& gpu = gpus.emplace_back();
    gpu.instances_known = false;
    gpu.pci = folder.filename().string();
    std::ifstream file(folder / "information");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Model:")) gpu.name = value_of(line);
      // The file has question marks until a process has used the GPU.
      if (line.starts_with("GPU UUID:") && line.find('?') == std::string::npos) {
        gpu.uuid = value_of(line);
      }
    }
  }
  return gpus;
}

std::vector<Gpu> gpus_of_answer(std::string_view text) {
  std::vector<Gpu> gpus;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::vector<std::string> cells;
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t tab = std::min(line.find('\t', at), line.size());
      cells.emplace_back(line.substr(at, tab - at));
      at = tab + 1;
    }
    if (cells[0] == "end") return gpus;
    if (cells[0] == "gpu" && cells.size() == 5) {
      gpus.push_back({cells[1], cells[2], cells[3] == "1", {}, true, cells[4]});
    } else if (cells[0] == "link" && cells.size() == 2 && !gpus.empty()) {
      gpus.back().nv_links.push_back(cells[1]);
    } else if (cells[0] == "mig" && cells.size() == 2 && !gpus.empty()) {
      gpus.back().instances.push_back(cells[1]);
    } else if (cells[0] == "error" && cells.size() == 2) {
      throw_error(ErrorKind::kIo, "the NVIDIA driver does not say which GPUs there are: {}",
                  cells[1]);
    } else {
      break;
    }
  }
  throw_error(ErrorKind::kIo,
              "the NVIDIA driver does not say which GPUs there are: {} ended the process that "
              "asked it",
              kLibrary);
}

std::vector<Gpu> find_gpus(std::chrono::milliseconds deadline) {
  const std::optional<std::string> answer = answer_of_child(ask_driver, deadline);
  DL_CHECK(answer.has_value(), kTimeout,
           "the NVIDIA driver has not said within {} s which GPUs there are; see `nvidia-smi` and "
           "`dmesg`",
           std::chrono::duration_cast<std::chrono::seconds>(deadline).count());
  if (*answer == fmt::format("error\t{}\n", kNoLibrary)) return gpus_of_proc();
  return gpus_of_answer(*answer);
}

}  // namespace dl::launcher
