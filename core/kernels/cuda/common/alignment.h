// True if 16 bytes may be loaded at once from an address, as dlrun's packed kernels and the
// libraries' tensor core kernels do.
#pragma once

#include <cstdint>

namespace dl::kernels::cuda {

inline bool is_aligned(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

}  // namespace dl::kernels::cuda
