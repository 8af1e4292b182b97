// Memory of CUDA devices and pinned memory of the host, for tensors and for kernels, out of one
// caching allocator each (caching_allocator.h, pinned_allocator.h), and what it says of itself with
// torch.cuda's names.
//
// Thread-safety: any thread may call. What begins with a device number is refused as by
// set_device() where there is none such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/device/cuda/cuda.h"
#include "core/device/stream.h"
#include "core/memory/cuda/caching_allocator.h"

namespace dl::cuda {

// At least `bytes` bytes, aligned to 512; null for none. Throws kInvalidArgument where the device
// has no more.
void* allocate(int device, std::size_t bytes, const Stream& stream);
void deallocate(int device, void* block) noexcept;
// A stream other than the block's own has been given work on it: it is not used again before that
// is done.
void record_stream(int device, void* block, const Stream& stream);
CachingAllocator& allocator(int device);

// Host memory for fast copies; null for no bytes.
void* allocate_pinned(std::size_t bytes);
void deallocate_pinned(void* block) noexcept;
bool is_pinned(const void* data) noexcept;
// As record_stream(), of a copy from or to pinned memory.
void record_pinned_use(const void* data, const Stream& stream);

// A copy between any two memories in the stream's order; see Runtime::copy_async.
void copy(void* to, const void* from, std::size_t bytes, const Stream& stream);
// Device memory to the host, and waits for it.
void read(void* to, const void* from, std::size_t bytes, const Stream& stream);

// In bytes; for the current device if none is named.
std::int64_t memory_allocated(int device = current_device());
std::int64_t max_memory_allocated(int device = current_device());
std::int64_t memory_reserved(int device = current_device());
std::int64_t max_memory_reserved(int device = current_device());
void reset_peak_memory_stats(int device = current_device());
// "allocated_bytes.all.peak" and the others that PyTorch has under the same names.
std::map<std::string, std::int64_t> memory_stats(int device = current_device());
// Free and total memory of the device, including that of other processes.
MemoryInfo mem_get_info(int device = current_device());
// Gives all cached memory of all devices, and pinned memory, back.
void empty_cache();

}  // namespace dl::cuda
