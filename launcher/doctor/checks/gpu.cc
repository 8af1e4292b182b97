#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/small_file.h"
#include "core/base/text/number.h"
#include "launcher/doctor/checks/families.h"
#include "launcher/process/ask/child_answer.h"
#include "launcher/topo/devices.h"

namespace dl::launcher::doctor {
namespace {

constexpr std::chrono::seconds kPatienceWithDriver{20};

// Along the linker's path, then in the toolkit's folder. nullptr: not found.
void* open_library(const std::string& name) {
  if (void* const found = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return found;
  const std::string home = env::get(env::Var::kCudaHome).value_or("/usr/local/cuda");
  return ::dlopen((home + "/lib64/" + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
}

// The value that a function `int f(int*)` gives; 0 if it fails or is not there.
int number_of(void* library, const char* function) {
  if (library == nullptr) return 0;
  auto* const ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, function));
  int value = 0;
  return ask != nullptr && ask(&value) == 0 ? value : 0;
}

// NCCL has its version as a text for its log: "NCCL version 2.28.9+cuda13.0".
int cuda_of_nccl(void* nccl) {
  constexpr std::string_view kMark = "+cuda";
  Dl_info info{};
  void* const symbol = nccl == nullptr ? nullptr : ::dlsym(nccl, "ncclGetVersion");
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return 0;
  std::ifstream file(info.dli_fname, std::ios::binary);
  std::string part(1U << 20, '\0');
  std::string tail;
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    const std::string text = tail + part.substr(0, static_cast<std::size_t>(file.gcount()));
    for (std::size_t at = text.find(kMark); at != std::string::npos;
         at = text.find(kMark, at + 1)) {
      const std::size_t begin = at + kMark.size();
      const std::size_t end = text.find_first_not_of("0123456789", begin);
      const auto major = read_number<int>(text.substr(begin, std::min(end, text.size()) - begin));
      if (major) return *major;
    }
    tail = text.substr(text.size() - std::min<std::size_t>(text.size(), 16));
  }
  return 0;
}

// "CUDA_DRIVER CUDART NCCL NCCL_CUDA". Runs in a child.
std::string ask_libraries() {
  const int driver = number_of(open_library("libcuda.so.1"), "cuDriverGetVersion");
  int cudart = 0;
  for (const char* const name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    if (cudart == 0) cudart = number_of(open_library(name), "cudaRuntimeGetVersion");
  }
  void* const nccl = open_library("libnccl.so.2");
  return fmt::format("{} {} {} {}", driver, cudart, number_of(nccl, "ncclGetVersion"),
                     cuda_of_nccl(nccl));
}

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}
// 22809: 2.28.9; before 2.9, 2804: 2.8.4.
std::string nccl_text(int version) {
  return version < 10000
             ? fmt::format("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100)
             : fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace

GpuFacts read_gpu(const std::string& root) {
  GpuFacts facts;
  const std::vector<topo::Device> devices = topo::read_devices(root);
  facts.gpus =
      static_cast<int>(std::ranges::count(devices, topo::DeviceKind::kGpu, &topo::Device::kind));
  facts.packages = read_package_manager(root);
  facts.driver = first_line(root + "/sys/module/nvidia/version").value_or("");
  if (facts.gpus == 0) return facts;
  const std::optional<std::string> answer = answer_of_child(ask_libraries, kPatienceWithDriver);
  std::istringstream words(answer.value_or(""));
  if (!(words >> facts.cuda_driver >> facts.cudart >> facts.nccl >> facts.nccl_cuda)) {
    facts.error = answer ? "loading NVIDIA's libraries ended the process that did it"
                         : fmt::format("the driver has not answered within {} s",
                                       kPatienceWithDriver.count());
  }
  return facts;
}

Checks check_gpu(const GpuFacts& facts) {
  if (facts.gpus == 0) return {{.name = "GPUs", .found = "none"}};
  Checks checks;
  checks.push_back(
      judged("GPU driver",
             fmt::format("{}, driver {}", counted(static_cast<std::uint64_t>(facts.gpus), "GPU"),
                         facts.driver.empty() ? "not loaded" : facts.driver),
             {{facts.driver.empty(), Verdict::kWrong,
               "no program can use the GPUs; without a driver, install nvidia-driver first",
               "sudo modprobe nvidia"}}));
  if (facts.driver.empty()) return checks;
  if (!facts.error.empty()) {
    checks.push_back(judged("CUDA", facts.error,
                            {{true, Verdict::kWrong, "a rank that uses a GPU ends so, too",
                              "nvidia-smi; sudo dmesg | grep -i nvrm"}}));
    return checks;
  }
  checks.push_back(
      judged("CUDA",
             facts.cuda_driver == 0 ? "libcuda.so.1 is not found, or does not start"
                                    : fmt::format("up to {}", cuda_text(facts.cuda_driver)),
             {{facts.cuda_driver == 0, Verdict::kWrong,
               "CUDA programs need the driver's library: a host has it from the driver's "
               "package, a container from the NVIDIA runtime",
               "docker run --gpus all ..."}}));
  checks.push_back(judged(
      "CUDA runtime", facts.cudart == 0 ? "not found" : cuda_text(facts.cudart),
      {{facts.cudart / 1000 > facts.cuda_driver / 1000 && facts.cuda_driver > 0, Verdict::kWrong,
        fmt::format("it is newer than the driver, which goes up to CUDA {}",
                    cuda_text(facts.cuda_driver)),
        fmt::format("install CUDA {}, or a newer driver", facts.cuda_driver / 1000)}}));
  const bool has_nccl = facts.nccl > 0;
  checks.push_back(judged(
      "NCCL",
      has_nccl
          ? fmt::format("{}{}", nccl_text(facts.nccl),
                        facts.nccl_cuda == 0 ? "" : fmt::format(", for CUDA {}", facts.nccl_cuda))
          : "not found",
      {{!has_nccl && facts.gpus > 1, Verdict::kWarn,
        "collectives between GPUs need it; programs may bring their own (PyTorch does)",
        install(facts.packages, {"libnccl2", "libnccl", "libnccl"})},
       {has_nccl && facts.nccl_cuda > facts.cuda_driver / 1000 && facts.cuda_driver > 0,
        Verdict::kWrong, "it is made for a newer CUDA than the driver's",
        fmt::format("install the NCCL for CUDA {}, or a newer driver", facts.cuda_driver / 1000)},
       {has_nccl && facts.nccl_cuda > 0 && facts.cudart > 0 &&
            facts.nccl_cuda != facts.cudart / 1000,
        Verdict::kWarn, "it is made for another CUDA than the runtime that is found",
        fmt::format("install the NCCL for CUDA {}", facts.cudart / 1000)}}));
  return checks;
}

}  // namespace dl::launcher::doctor
