#include "collectives/bench/machine/gpu.h"

#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module/module.h"

namespace dl::collectives::bench {

Gpu::Gpu(cuda::Runtime& runtime, int device)
    : runtime_(runtime), properties_(runtime.properties(device)) {
  runtime_.check_device(device);
  stream_ = {.device = {DeviceType::kCUDA, static_cast<std::int16_t>(device)},
             .handle = runtime_.make_stream(device, false)};
}

Gpu::~Gpu() {
  runtime_.destroy_stream(stream_.handle);
}

void Gpu::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes > 0) runtime_.copy_async(to, from, bytes, stream_.handle);
}

void Gpu::synchronize() const {
  runtime_.synchronize_stream(stream_.handle);
}

void Gpu::Free::operator()(std::byte* block) const noexcept {
  device == kHost ? runtime->deallocate_pinned(block) : runtime->deallocate(device, block);
}

Gpu::Memory Gpu::allocate(std::size_t bytes) const {
  void* const block = runtime_.allocate(device(), bytes);
  DL_CHECK(block != nullptr, kInvalidArgument,
           "{} ({}) has no {} bytes of memory left, but {} free; take a smaller -e or -m, or -c 0",
           stream_.device.str(), properties_.name, bytes, runtime_.memory_info(device()).free);
  return Memory(static_cast<std::byte*>(block), {&runtime_, device()});
}

Gpu::Memory Gpu::allocate_pinned(std::size_t bytes) const {
  void* const block = runtime_.allocate_pinned(device(), bytes);
  DL_CHECK(block != nullptr, kInvalidArgument,
           "cannot allocate {} bytes of pinned memory; take a smaller -e or -m, or -c 0", bytes);
  return Memory(static_cast<std::byte*>(block), {&runtime_, Free::kHost});
}

std::unique_ptr<Gpu> open_gpu(const std::string& device) {
  cuda::Runtime& runtime = cuda::runtime();
  return std::make_unique<Gpu>(runtime, cuda::choose_device(device).index);
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue ..."
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") > word.size())
      return ", driver " + word;
  }
  return {};
}

}  // namespace dl::collectives::bench
