// How tensors lie in memory, and the copies that operations make of them for their kernels.
#pragma once

#include "core/autograd/grad_mode.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/tensor/factories.h"
#include "core/tensor/layout/deferred.h"
#include "core/tensor/tensor.h"

namespace dl {

namespace detail {
// core/ops/copy.cc: laid_out() of a tensor that is deferred or lies in another order.
Tensor laid_out_anew(const Tensor& tensor, MemoryFormat format);
}  // namespace detail

// The elements in the order that the kernel wants: where they lie, also in the source of a deferred
// tensor, if they lie so, else a copy. Without history; only to be read.
inline Tensor laid_out(const Tensor& tensor, MemoryFormat format = MemoryFormat::kContiguous) {
  if (tensor.is_contiguous(format) && tensor.impl()->is_settled()) return tensor;
  return detail::laid_out_anew(tensor, format);
}

// The format in which PyTorch computes with this image.
inline MemoryFormat torch_format(const Tensor& tensor) {
  return suggested_format(tensor.sizes(), tensor.strides());
}

// Memory for a result that lies as PyTorch's.
inline Tensor empty_with(const Shape& shape, const Strides& strides, const TensorOptions& options) {
  return as_strided(empty(shape, options), shape, strides, 0);
}

// Memory of its own order for a result that keeps a tensor's: gaps are closed, as empty_like does.
// Never deferred.
inline Tensor empty_as_torch(const Tensor& like, const Shape& shape, DType dtype) {
  const Strides& strides = like.strides();
  return empty_with(shape, dense_strides(shape, {&strides, 1}),
                    {.dtype = dtype, .device = like.device()});
}

// compute(memory), which writes row-major memory of the result's shape, then brings it into the
// result.
template <typename Compute>
void through_row_major(const Tensor& result, const Compute& compute) {
  if (result.is_contiguous()) return compute(result);
  const Tensor rows = empty(result.sizes(), {.dtype = result.dtype(), .device = result.device()});
  compute(rows);
  call<Op::kCopy>(result.device(), rows, result);
}

// The rows [n, width] along the last dimension of a row-major tensor, in the same memory: without
// history, or the tensor itself if it has this form.
inline Tensor rows_of(const Tensor& tensor) {
  const std::int64_t width = tensor.size(-1);
  if (tensor.dim() == 2 && tensor.stride(0) == width && tensor.stride(1) == 1) return tensor;
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
