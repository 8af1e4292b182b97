#include "core/memory/cuda/cuda_memory.h"

#include <mutex>
#include <unordered_map>

#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module.h"

namespace dl::cuda {
namespace {

struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, int> device;
};
Blocks& blocks() {
  static auto* const all = new Blocks;  // tensors may outlive every static
  return *all;
}

}  // namespace

void* allocate(int device, std::size_t bytes, const Stream&) {
  if (bytes == 0) return nullptr;
  void* const block = runtime().allocate(device, bytes);
  DL_CHECK(block != nullptr, kInvalidArgument, "cuda:{}: out of memory: {} bytes were wanted",
           device, bytes);
  const std::lock_guard lock(blocks().mutex);
  blocks().device.emplace(block, device);
  return block;
}

void deallocate(void* block) noexcept {
  if (block == nullptr) return;
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().device.extract(block);
  runtime().deallocate(found.mapped(), block);
}

const Host& host() noexcept {
  static constexpr Host kHost{
      .current_stream = [](int device) { return current_stream(device).handle; },
      .allocate =
          [](int device, std::size_t bytes, void* stream) {
            return allocate(device, bytes,
                            {{DeviceType::kCUDA, static_cast<std::int16_t>(device)}, stream});
          },
      .deallocate = [](void* block) noexcept { deallocate(block); },
      .math = &dl::detail::math_flags};
  return kHost;
}

}  // namespace dl::cuda
