// Whether 16 bytes at once may be loaded from an address: kernels of our own with packs, and the
// libraries' on tensor cores.
#pragma once

#include <cstdint>

namespace dl::kernels::cuda {

inline bool is_aligned(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

}  // namespace dl::kernels::cuda
