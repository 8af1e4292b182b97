// Memory of CUDA devices and pinned host memory, for tensors and kernels, from one caching
// allocator each (caching_allocator.h, pinned_allocator.h), and its statistics under torch.cuda's
// names.
//
// Thread-safety: any thread may call. A function with a device number throws like set_device() if
// there is no such device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/device/cuda/cuda.h"
#include "core/device/stream.h"
#include "core/memory/cuda/caching_allocator.h"

namespace dl::cuda {

// At least `bytes` bytes, aligned to 512; null for 0 bytes. Throws kInvalidArgument if the device
// is out of memory.
void* allocate(int device, std::size_t bytes, const Stream& stream);
void deallocate(int device, void* block) noexcept;
// A stream other than the block's own uses it: the block is not reused before that work is done.
void record_stream(int device, void* block, const Stream& stream);
CachingAllocator& allocator(int device);

// Host memory for fast copies; null for 0 bytes.
void* allocate_pinned(std::size_t bytes);
void deallocate_pinned(void* block) noexcept;
bool is_pinned(const void* data) noexcept;
// Like record_stream(), for a copy from or to pinned memory.
void record_pinned_use(const void* data, const Stream& stream);

// Copies between any two memories in the stream's order; see Runtime::copy_async.
void copy(void* to, const void* from, std::size_t bytes, const Stream& stream);
// Copies device memory to the host and waits for the copy.
void read(void* to, const void* from, std::size_t bytes, const Stream& stream);

// In bytes. `device` defaults to the current device in all of these.
std::int64_t memory_allocated(int device = current_device());
std::int64_t max_memory_allocated(int device = current_device());
std::int64_t memory_reserved(int device = current_device());
std::int64_t max_memory_reserved(int device = current_device());
void reset_peak_memory_stats(int device = current_device());
// Keys as in torch.cuda.memory_stats(): "allocated_bytes.all.peak", ...
std::map<std::string, std::int64_t> memory_stats(int device = current_device());
// Free and total memory of the device, including that of other processes.
MemoryInfo mem_get_info(int device = current_device());
// Returns all cached device memory of all devices and cached pinned memory to the system.
void empty_cache();

}  // namespace dl::cuda
