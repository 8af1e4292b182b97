// Memory of CUDA devices, for tensors and for kernels.
//
// A block belongs to the stream it was allocated for: freed, it may be given out again at once to
// that stream, whose order keeps the two uses apart. Other streams that use a block are told with
// record_stream(). Thread-safety: any thread may call.
#pragma once

#include <cstddef>

#include "core/device/stream.h"

namespace dl::cuda {

// At least `bytes` bytes, aligned to 512; null for none.
void* allocate(int device, std::size_t bytes, const Stream& stream);
void deallocate(void* block) noexcept;

}  // namespace dl::cuda
