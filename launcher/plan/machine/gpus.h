// Which NVIDIA GPUs this process may use, without linking CUDA or starting it.
//
// A child process asks the driver's management library (libnvidia-ml.so.1), which may hang or crash
// after a GPU has fallen off the bus. If the library is not installed, as in some containers,
// /proc/driver/nvidia is read.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher {

struct Gpu {
  std::string uuid;  // "GPU-8932f937-..."; empty if it could not be read
  std::string name;  // "NVIDIA H200"
  // A GPU in MIG mode can only be used through its instances, "MIG-...", which may be none.
  bool partitioned = false;
  std::vector<std::string> instances;
  bool instances_known = true;  // false if only /proc was read
  std::string pci{};            // "0000:17:00.0"; empty: unknown
  // The PCI address at the other end of each NVLink that is up, or kNvSwitch.
  std::vector<std::string> nv_links{};
};
inline constexpr std::string_view kNvSwitch = "switch";

// In the driver's order; empty if there is no driver. Throws kIo if the driver is there and fails,
// kTimeout if it does not answer by the deadline. Call it before any thread exists.
std::vector<Gpu> find_gpus(std::chrono::milliseconds deadline = std::chrono::seconds(30));

// A GPU that a process sees if its CUDA_VISIBLE_DEVICES is `mask`.
struct VisibleGpu {
  std::string token;  // its name in CUDA_VISIBLE_DEVICES: "2", "GPU-8932f937", "MIG-..."
  std::string uuid;   // empty if unknown
  std::string name;
  std::string pci{};             // as in Gpu
  std::vector<int> near_cpus{};  // ascending; empty: unknown. gpus_to_give_out() fills it in

  bool is_instance() const { return token.starts_with("MIG-"); }
};

// In the order in which the process numbers them. `mask` nullopt: the variable is not set. Throws
// kInvalidArgument with one sentence if CUDA would silently show fewer GPUs than are named.
std::vector<VisibleGpu> visible_gpus(const std::vector<Gpu>& gpus,
                                     const std::optional<std::string>& mask);

// The CPUs near a GPU, as /sys says; empty if it does not. `root` stands for "/".
std::vector<int> cpus_near(const std::string& pci, const std::string& root = "");

// The visible GPUs of this process. Throws what the two functions above throw.
std::vector<VisibleGpu> gpus_to_give_out();

// The parts of find_gpus() that read text, for tests.
// `root` stands for "/".
std::vector<Gpu> gpus_of_proc(const std::string& root = "");
// The output of the child: a line "gpu\tUUID\tNAME\tMIG-MODE\tPCI" for a GPU, "link\tPCI" for an
// NVLink, "mig\tUUID" for an instance, and "end", or "error\tTEXT".
std::vector<Gpu> gpus_of_answer(std::string_view text);

}  // namespace dl::launcher
