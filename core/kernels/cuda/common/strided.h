// Converts a StridedLoop to OffsetMaps for the device, in several parts if it is long.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/error.h"
#include "core/kernels/cuda/common/offsets.h"
#include "core/kernels/strided_loop.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

inline constexpr std::int64_t kMostElements = (std::int64_t{1} << 31) - 1;  // of one launch

// Calls launch(map, first) for each part of at most kMostElements elements; `first` are the
// operands' offsets of its first element.
template <std::size_t N, typename Launch>
void for_each_part(const StridedLoop<N>& loop, const Launch& launch,
                   const std::array<std::int64_t, N>& first = {}) {
  if (loop.count == 0) return;
  if (loop.count > kMostElements) {
    // Splits the outermost dimension that is longer than 1.
    StridedLoop<N> half = loop;
    std::size_t at = 0;
    while (loop.shape[at] == 1) ++at;
    const std::int64_t outer = loop.shape[at];
    const std::int64_t low = outer / 2;
    half.shape[at] = low;
    half.count = loop.count / outer * low;
    for_each_part(half, launch, first);
    half.shape[at] = outer - low;
    half.count = loop.count / outer * (outer - low);
    std::array<std::int64_t, N> middle = first;
    for (std::size_t k = 0; k < N; ++k) middle[k] += low * loop.strides[k][at];
    for_each_part(half, launch, middle);
    return;
  }
  const std::size_t dims = loop.shape.size();
  DL_CHECK(dims <= kMaxDims, kNotImplemented,
           "a CUDA kernel was given tensors of {} dimensions that cannot be joined, it knows {}; "
           "make them contiguous()",
           dims, kMaxDims);
  OffsetMap<static_cast<int>(N)> map;
  map.dims = static_cast<int>(dims);
  map.count = static_cast<std::uint32_t>(loop.count);
  for (std::size_t d = 0; d < dims; ++d) {
    const std::size_t from = dims - 1 - d;
    map.sizes[d] = FastDivisor(static_cast<std::uint32_t>(loop.shape[from]));
    for (std::size_t k = 0; k < N; ++k) map.strides[d][k] = loop.strides[k][from];
  }
  launch(map, first);
}

// A tensor's strides when broadcast to the shape `target`.
inline Strides strides_in(const Tensor& tensor, const Shape& target) {
  Strides strides(target.size(), 0);
  const std::size_t lead = target.size() - tensor.sizes().size();
  for (std::size_t d = lead; d < target.size(); ++d) {
    if (tensor.sizes()[d - lead] != 1) strides[d] = tensor.strides()[d - lead];
  }
  return strides;
}

}  // namespace dl::kernels::cuda
