// OffsetMap: from an element's number to its offsets in several tensors of one shape and any
// strides, for strided kernels. Plain data, passed by value.
#pragma once

#include <cstdint>

#include "core/kernels/fast_divisor.h"

namespace dl::kernels::cuda {

inline constexpr int kMaxDims = 8;  // after dimensions were merged

template <int kOperands>
struct Offsets {
  std::int64_t at[kOperands];
};

// For at most 2^31 - 1 elements; larger loops are launched in parts (strided.h).
template <int kOperands>
struct OffsetMap {
  int dims = 1;
  std::uint32_t count = 0;
  FastDivisor sizes[kMaxDims];                     // innermost first
  std::int64_t strides[kMaxDims][kOperands] = {};  // in elements

  DL_HOST_DEVICE Offsets<kOperands> operator()(std::uint32_t element) const {
    Offsets<kOperands> offsets{};
    for (int d = 0; d < dims; ++d) {
      const std::uint32_t outer = sizes[d].divide(element);
      const std::int64_t index = element - outer * sizes[d].divisor();
      element = outer;
      for (int k = 0; k < kOperands; ++k) offsets.at[k] += index * strides[d][k];
    }
    return offsets;
  }
};

}  // namespace dl::kernels::cuda
