// Memory layouts of operands and results, and the copies that operations make for their kernels.
#pragma once

#include "core/autograd/grad_mode.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/tensor/factories.h"
#include "core/tensor/layout/deferred.h"
#include "core/tensor/tensor.h"

namespace dl {

namespace detail {
// core/ops/copy.cc: laid_out() for a tensor that is deferred or in another order.
Tensor in_stored_format(const Tensor& tensor, MemoryFormat format);
}  // namespace detail

// The elements in the order that the kernel needs, without history, to be read only. Returns the
// tensor itself, or the source of a deferred tensor, if it has this order; else a copy.
inline Tensor laid_out(const Tensor& tensor, MemoryFormat format = MemoryFormat::kContiguous) {
  if (tensor.is_contiguous(format) && tensor.impl()->is_materialized()) return tensor;
  return detail::in_stored_format(tensor, format);
}
// laid_out() if the operand is defined, else the undefined operand.
inline Tensor laid_out_or_none(const Tensor& tensor) {
  return tensor.defined() ? laid_out(tensor) : tensor;
}

// The memory format in which PyTorch computes this image.
inline MemoryFormat torch_format(const Tensor& tensor) {
  return suggested_format(tensor.sizes(), tensor.strides());
}

// Allocates a result with PyTorch's strides.
inline Tensor empty_with(const Shape& shape, const Strides& strides, const TensorOptions& options) {
  return as_strided(empty(shape, options), shape, strides, 0);
}

// Allocates a dense result in the dimension order of `like`'s PyTorch strides, as torch.empty_like.
// Never deferred.
inline Tensor empty_as_torch(const Tensor& like, const Shape& shape, DType dtype) {
  const Strides& strides = like.strides();
  return empty_with(shape, dense_strides(shape, {&strides, 1}),
                    {.dtype = dtype, .device = like.device()});
}

// Calls compute(memory) with row-major memory of the result's shape, then copies it into the
// result.
template <typename Compute>
void through_row_major(const Tensor& result, const Compute& compute) {
  if (result.is_contiguous()) return compute(result);
  const Tensor rows = empty(result.sizes(), {.dtype = result.dtype(), .device = result.device()});
  compute(rows);
  call<Op::kCopy>(result.device(), rows, result);
}

// Views a row-major tensor as a matrix [n, width], width being its last size. The view has no
// history; a tensor that is such a matrix already is returned as it is.
inline Tensor rows_of(const Tensor& tensor) {
  const std::int64_t width = tensor.size(-1);
  if (tensor.dim() == 2 && tensor.stride(0) == width && tensor.stride(1) == 1) return tensor;
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d + 1 < tensor.dim(); ++d) rows *= tensor.size(d);
  return as_strided(tensor, {rows, width}, {width, 1}, tensor.storage_offset());
}

// The longest dimension outside [begin, end): indexed writes never collide along it. -1: none.
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
