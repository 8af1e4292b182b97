// How tensors lie in memory, and the copies that operations make of them for their kernels.
#pragma once

#include "core/autograd/grad_mode.h"
#include "core/ops/dispatch.h"
#include "core/tensor/factories.h"
#include "core/tensor/tensor.h"

namespace dl {

// The tensor where it lies as the kernel wants it, else a copy that does, without history.
inline Tensor laid_out(const Tensor& tensor, MemoryFormat format = MemoryFormat::kContiguous) {
  if (tensor.is_contiguous(format)) return tensor;
  const NoGradGuard not_recorded;
  return tensor.contiguous(format);
}

// The format in which PyTorch computes with this image.
inline MemoryFormat torch_format(const Tensor& tensor) {
  return suggested_format(tensor.sizes(), tensor.impl()->torch_strides());
}

// Channels-last memory for a result of images that PyTorch lays out in the format `in_torch`.
inline Tensor empty_image(const Shape& shape, MemoryFormat in_torch, const TensorOptions& options) {
  Tensor image = empty(shape, MemoryFormat::kChannelsLast, options);
  if (in_torch != MemoryFormat::kChannelsLast) {
    image.impl()->set_torch_strides(contiguous_strides(shape));
  }
  return image;
}

// Memory for a result that lies as PyTorch's.
inline Tensor empty_with(const Shape& shape, const Strides& strides, const TensorOptions& options) {
  return as_strided(empty(shape, options), shape, strides, 0);
}

// Memory of its own order for a result that keeps a tensor's: gaps are closed, as empty_like does.
// An image that is channels-last only here gives a row-major result.
inline Tensor empty_as_torch(const Tensor& like, const Shape& shape, DType dtype) {
  const Strides& strides = like.impl()->torch_strides();
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
