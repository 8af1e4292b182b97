#include "core/kernels/cuda/cudnn/plan_store.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <span>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log/warn_once.h"
#include "core/base/system/atomic_file.h"
#include "core/kernels/cuda/runtime/active_device.h"
#include "core/kernels/cuda/runtime/errors.h"

namespace dl::kernels::cuda::dnn {
namespace {

namespace fs = std::filesystem;

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

// Empty: nothing is kept.
fs::path folder() {
  if (const auto given = env::get(env::Var::kCudnnCache)) {
    return *given == "off" ? fs::path() : fs::path(*given);
  }
  if (const auto cache = env::get(env::Var::kXdgCacheHome)) {
    return fs::path(*cache) / "dlrun" / "cudnn";
  }
  const auto home = env::get(env::Var::kHome);
  return home ? fs::path(*home) / ".cache" / "dlrun" / "cudnn" : fs::path();
}

std::string key_of(std::string_view shape) {
  cudaDeviceProp device{};
  DL_CUDA_CHECK(cudaGetDeviceProperties(&device, dl::cuda::active_device()));
  int driver = 0;
  DL_CUDA_CHECK(cudaDriverGetVersion(&driver));
  return fmt::format("{}, sm_{}{}, {} multiprocessors, driver {}, cuDNN {}: {}\n", device.name,
                     device.major, device.minor, device.multiProcessorCount, driver,
                     cudnnGetVersion(), shape);
}

fs::path file_of(const fs::path& in, std::string_view key) {
  return in / fmt::format("{:016x}", hash_of(key));
}

std::string heading_of(std::string_view rest) {
  return fmt::format("dlrun's plan for cuDNN, 1, {:016x}\n", hash_of(rest));
}

// Throws std::ios_base::failure if the file cannot be read, for example if it is a folder.
std::string all_of(std::ifstream& stream) {
  return {std::istreambuf_iterator<char>(stream), {}};
}

void warn_of(const fs::path& file) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true)) {
    warn_once("cuDNN's plan {} cannot be used; it is made and written anew", file.string());
  }
}

}  // namespace

std::optional<std::string> stored_plan(std::string_view shape) {
  const fs::path in = folder();
  if (in.empty()) return std::nullopt;
  const std::string key = key_of(shape);
  const fs::path file = file_of(in, key);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text;
  try {
    text = all_of(stream);
  } catch (const std::ios_base::failure&) {
    warn_of(file);
    return std::nullopt;
  }
  const std::size_t heading = heading_of({}).size();
  const std::string_view rest =
      text.size() < heading ? std::string_view() : std::string_view(text).substr(heading);
  if (!text.starts_with(heading_of(rest))) {
    warn_of(file);
    return std::nullopt;
  }
  if (!rest.starts_with(key)) return std::nullopt;  // another shape with this hash
  return std::string(rest.substr(key.size()));
}

void store_plan(std::string_view shape, std::string_view content) {
  const fs::path in = folder();
  if (in.empty()) return;
  try {
    fs::create_directories(in);
    const std::string key = key_of(shape);
    const std::string rest = key + std::string(content);
    const std::string text = heading_of(rest) + rest;
    AtomicFile file(file_of(in, key).string());
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const std::exception&) {
    warn_once(
        "cuDNN's plans cannot be written to {} for the next run; DLRUN_CUDNN_CACHE names another "
        "folder, or is off",
        in.string());
  }
}

void warn_of_unusable(std::string_view shape) {
  warn_of(file_of(folder(), key_of(shape)));
}

}  // namespace dl::kernels::cuda::dnn
