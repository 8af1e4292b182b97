#include "core/memory/cuda/cuda_memory.h"

#include <array>
#include <atomic>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/device/cuda/module/module.h"
#include "core/memory/cuda/pinned_allocator.h"

namespace dl::cuda {
namespace {

// Made at first use and never destroyed: tensors may outlive every static.
constinit std::array<std::atomic<CachingAllocator*>, kMostDevices> allocators{};
constinit std::atomic<PinnedAllocator*> pinned_memory{nullptr};
constinit Mutex allocators_mutex;

PinnedAllocator& pinned() {
  if (PinnedAllocator* const known = pinned_memory.load(std::memory_order_acquire)) return *known;
  Runtime& api = runtime();
  const Lock lock(allocators_mutex);
  if (pinned_memory.load(std::memory_order_relaxed) == nullptr) {
    pinned_memory.store(new PinnedAllocator(api), std::memory_order_release);
  }
  return *pinned_memory.load(std::memory_order_relaxed);
}

}  // namespace

CachingAllocator& allocator(int device) {
  if (device >= 0 && device < kMostDevices) {
    std::atomic<CachingAllocator*>& place = allocators[static_cast<std::size_t>(device)];
    if (CachingAllocator* const known = place.load(std::memory_order_acquire)) return *known;
  }
  default_stream(device);  // throws if the device does not exist
  const Caching caching = env::get_switch(env::Var::kCudaCache) ? Caching::kOn : Caching::kOff;
  std::atomic<CachingAllocator*>& place = allocators[static_cast<std::size_t>(device)];
  const Lock lock(allocators_mutex);
  if (place.load(std::memory_order_relaxed) == nullptr) {
    place.store(new CachingAllocator(runtime(), device, caching), std::memory_order_release);
  }
  return *place.load(std::memory_order_relaxed);
}

void* allocate(int device, std::size_t bytes, const Stream& stream) {
  CachingAllocator& memory = allocator(device);
  return bytes == 0 ? nullptr : memory.allocate(bytes, stream.handle);
}

void deallocate(int device, void* block) noexcept {
  if (block == nullptr) return;
  allocators[static_cast<std::size_t>(device)].load(std::memory_order_acquire)->deallocate(block);
}

void record_stream(int device, void* block, const Stream& stream) {
  allocator(device).record_stream(block, stream.handle);
}

void* allocate_pinned(std::size_t bytes) {
  return bytes == 0 ? nullptr : pinned().allocate(home_device(), bytes);
}

void deallocate_pinned(void* block) noexcept {
  if (block != nullptr) pinned_memory.load(std::memory_order_acquire)->deallocate(block);
}

bool is_pinned(const void* data) noexcept {
  const PinnedAllocator* const known = pinned_memory.load(std::memory_order_acquire);
  return known != nullptr && known->owns(data);
}

void record_pinned_use(const void* data, const Stream& stream) {
  pinned().record_use(data, stream);
}

void copy(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes > 0) runtime().copy_async(to, from, bytes, stream.handle);
}

void read(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  copy(to, from, bytes, stream);
  synchronize(stream);
}

std::int64_t memory_allocated(int device) {
  return allocator(device).stats().allocated_bytes.current;
}

std::int64_t max_memory_allocated(int device) {
  return allocator(device).stats().allocated_bytes.peak;
}

std::int64_t memory_reserved(int device) {
  return allocator(device).stats().reserved_bytes.current;
}

std::int64_t max_memory_reserved(int device) {
  return allocator(device).stats().reserved_bytes.peak;
}

void reset_peak_memory_stats(int device) {
  allocator(device).reset_peak_stats();
}

std::map<std::string, std::int64_t> memory_stats(int device) {
  const AllocatorStats stats = allocator(device).stats();
  std::map<std::string, std::int64_t> all{{"num_alloc_retries", stats.num_alloc_retries},
                                          {"num_ooms", stats.num_ooms},
                                          {"num_device_alloc", stats.num_device_alloc},
                                          {"num_device_free", stats.num_device_free}};
  const auto put = [&all](const std::string& name, const Stat& stat) {
    all[name + ".all.current"] = stat.current;
    all[name + ".all.peak"] = stat.peak;
    all[name + ".all.allocated"] = stat.allocated;
    all[name + ".all.freed"] = stat.freed;
  };
  put("allocation", stats.allocation);
  put("segment", stats.segment);
  put("allocated_bytes", stats.allocated_bytes);
  put("reserved_bytes", stats.reserved_bytes);
  put("active_bytes", stats.active_bytes);
  put("requested_bytes", stats.requested_bytes);
  return all;
}

MemoryInfo mem_get_info(int device) {
  default_stream(device);
  return runtime().memory_info(device);
}

void empty_cache() {
  for (const std::atomic<CachingAllocator*>& place : allocators) {
    if (CachingAllocator* const known = place.load(std::memory_order_acquire)) {
      known->empty_cache();
    }
  }
  if (PinnedAllocator* const known = pinned_memory.load(std::memory_order_acquire)) {
    known->empty_cache();
  }
}

const Host& host() noexcept {
  static constexpr Host kHost{
      .current_stream = [](int device) { return current_stream(device).handle; },
      .allocate =
          [](int device, std::size_t bytes, void* stream) {
            return allocate(device, bytes,
                            {{DeviceType::kCUDA, static_cast<std::int16_t>(device)}, stream});
          },
      .deallocate = [](int device, void* block) noexcept { deallocate(device, block); },
      .math = &dl::detail::math_flags};
  return kHost;
}

}  // namespace dl::cuda
