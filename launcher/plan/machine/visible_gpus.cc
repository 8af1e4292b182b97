#include <algorithm>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/cpus.h"
#include "core/base/system/small_file.h"
#include "core/base/text/number.h"
#include "launcher/plan/machine/gpus.h"

namespace dl::launcher {
namespace {

std::string number_of_gpus(std::size_t n) {
  return n == 0   ? "no GPU was found"
         : n == 1 ? "1 GPU was found"
                  : fmt::format("{} GPUs were found", n);
}

// Every GPU that CUDA would show, each under a name that selects only this GPU.
std::vector<VisibleGpu> all_of(const std::vector<Gpu>& gpus) {
  std::vector<VisibleGpu> all;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (const std::string& instance : gpus[i].instances) {
      all.push_back({instance, instance, gpus[i].name, gpus[i].pci});
    }
    if (!gpus[i].partitioned) {
      all.push_back({std::to_string(i), gpus[i].uuid, gpus[i].name, gpus[i].pci});
    }
  }
  return all;
}

class Mask {
 public:
  Mask(const std::vector<Gpu>& gpus, const std::string& mask) : gpus_(gpus), mask_(mask) {}

  std::vector<VisibleGpu> read() const {
    std::vector<VisibleGpu> visible;
    for (std::size_t at = 0; at <= mask_.size();) {
      const std::size_t comma = std::min(mask_.find(',', at), mask_.size());
      const std::string token = trimmed(mask_.substr(at, comma - at));
      at = comma + 1;
      // CUDA reads the list up to here. SLURM writes NoDevFiles for a step without a GPU.
      if (token == "-1" || token == "NoDevFiles") break;
      if (token.empty() && at > mask_.size()) break;  // "0,1,", as scripts make it
      VisibleGpu gpu = find(token);
      const auto same = [&](const VisibleGpu& other) {
        return other.token == gpu.token || (!gpu.uuid.empty() && other.uuid == gpu.uuid);
      };
      if (std::any_of(visible.begin(), visible.end(), same)) {
        refuse(fmt::format("it names `{}` twice, and CUDA then shows no GPU at all", token));
      }
      if (!visible.empty() && kind(token) != kind(visible.front().token)) {
        refuse(
            fmt::format("CUDA takes numbers, GPU-UUIDs or MIG instances, and not `{}` beside `{}`",
                        token, visible.front().token));
      }
      visible.push_back(std::move(gpu));
    }
    return visible;
  }

 private:
  static std::string trimmed(const std::string& text) {
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? ""
                                      : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  }

  static std::string_view kind(std::string_view token) {
    return token.starts_with("GPU-") || token.starts_with("MIG-") ? token.substr(0, 4) : "";
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw_error(ErrorKind::kInvalidArgument, "CUDA_VISIBLE_DEVICES is `{}`: {}", mask_, why);
  }

  VisibleGpu find(const std::string& token) const {
    if (token.starts_with("MIG-")) return find_instance(token);
    if (token.starts_with("GPU-")) return find_uuid(token);
    const int index = read_number<int>(token).value_or(-1);
    if (index < 0) {
      refuse(fmt::format("`{}` is neither a GPU's number nor GPU-... nor MIG-...", token));
    }
    if (std::cmp_greater_equal(index, gpus_.size())) {
      refuse(fmt::format("there is no GPU {} ({}), and CUDA would leave out all from there on",
                         index, number_of_gpus(gpus_.size())));
    }
    const Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
    return {token, gpu.uuid, gpu.name, gpu.pci};
  }

  // The beginning of a UUID is enough if only one GPU has it.
  VisibleGpu find_uuid(const std::string& token) const {
    const Gpu* found = nullptr;
    for (const Gpu& gpu : gpus_) {
      if (gpu.uuid.empty()) return {token, "", gpu.name};  // cannot be checked
      if (!gpu.uuid.starts_with(token)) continue;
      if (found != nullptr) refuse(fmt::format("`{}` is the beginning of two GPUs' UUIDs", token));
      found = &gpu;
    }
    if (found == nullptr) {
      refuse(fmt::format("no GPU here is `{}` ({}; `nvidia-smi -L` lists them)", token,
                         number_of_gpus(gpus_.size())));
    }
    return {token, found->uuid, found->name, found->pci};
  }

  VisibleGpu find_instance(const std::string& token) const {
    for (const Gpu& gpu : gpus_) {
      for (const std::string& instance : gpu.instances) {
        if (instance == token) return {token, instance, gpu.name, gpu.pci};
      }
      // MIG-GPU-<uuid>/1/0, as drivers before 470 named them.
      if (!gpu.instances_known || token.starts_with("MIG-" + gpu.uuid + "/"))
        return {token, "", gpu.name};
    }
    refuse(fmt::format("no MIG instance here is `{}` (`nvidia-smi -L` lists them)", token));
  }

  const std::vector<Gpu>& gpus_;
  const std::string& mask_;
};

}  // namespace

std::vector<VisibleGpu> visible_gpus(const std::vector<Gpu>& gpus,
                                     const std::optional<std::string>& mask) {
  return mask ? Mask(gpus, *mask).read() : all_of(gpus);
}

std::vector<int> cpus_near(const std::string& pci, const std::string& root) {
  if (pci.empty()) return {};
  return parse_cpu_list(
      first_line(root + "/sys/bus/pci/devices/" + pci + "/local_cpulist").value_or(""));
}

std::vector<VisibleGpu> gpus_to_give_out() {
  std::optional<std::string> mask;
  if (env::is_set(env::Var::kCudaVisibleDevices)) {
    mask = env::get(env::Var::kCudaVisibleDevices).value_or("");
  }
  std::vector<VisibleGpu> gpus = visible_gpus(find_gpus(), mask);
  for (VisibleGpu& gpu : gpus) gpu.near_cpus = cpus_near(gpu.pci);
  return gpus;
}

}  // namespace dl::launcher
