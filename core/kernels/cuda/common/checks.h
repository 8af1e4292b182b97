// What is checked before a launch.
#pragma once

#include <cstdint>

#include "core/base/error.h"
#include "core/elementwise/list.h"

namespace dl::kernels::cuda {

// Throws kNotImplemented if a row of a list of operations has no kernel for CUDA.
template <typename Facts>
void check_is_there(const Facts& row) {
  DL_CHECK(row.cuda != CudaKernel::kMissing, kNotImplemented, "{}: not on CUDA yet; use x.cpu()",
           row.name);
}

// Whether 16 bytes at once may be loaded from an address: kernels of our own with packs, and the
// libraries' on tensor cores.
inline bool is_aligned(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

}  // namespace dl::kernels::cuda
