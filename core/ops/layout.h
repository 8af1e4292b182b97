// How tensors lie in memory, and the copies that operations make of them for their kernels.
#pragma once

#include "core/autograd/grad_mode.h"
#include "core/tensor/tensor.h"

namespace dl {

// The tensor where it lies as the kernel wants it, else a copy that does, without history.
inline Tensor laid_out(const Tensor& tensor, MemoryFormat format = MemoryFormat::kContiguous) {
  if (tensor.is_contiguous(format)) return tensor;
  const NoGradGuard not_recorded;
  return tensor.contiguous(format);
}

// The rows [n, width] along the last dimension of a row-major tensor, in the same memory.
inline Tensor rows_of(const Tensor& tensor) {
  const std::int64_t width = tensor.size(-1);
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d + 1 < tensor.dim(); ++d) rows *= tensor.size(d);
  return as_strided(tensor, {rows, width}, {width, 1}, tensor.storage_offset());
}

// The longest dimension but those in [begin, end): along it elements have places of their own. -1
// if there is none.
inline std::int64_t longest_outside(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t best = -1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d >= begin && d < end) continue;
    if (shape[d] > 1 && (best < 0 || shape[d] > shape[static_cast<std::size_t>(best)])) {
      best = static_cast<std::int64_t>(d);
    }
  }
  return best;
}

}  // namespace dl
