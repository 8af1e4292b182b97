// Copies: contiguous, clone, to, copy_, and writes in place of one value.
#include "core/ops/dispatch.h"
#include "core/tensor/factories.h"
#include "core/tensor/tensor.h"

namespace dl {

Tensor Tensor::contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::kPreserve || is_contiguous(format)) return *this;
  return clone(format);
}

Tensor Tensor::clone(MemoryFormat format) const {
  Tensor result = empty_like(*this, format);
  call<Op::kCopy>(device(), *this, result);
  return result;
}

Tensor Tensor::to(DType wanted) const {
  if (wanted == dtype()) return *this;
  Tensor result = empty(sizes(),
                        is_channels_last() && !is_contiguous() ? MemoryFormat::kChannelsLast
                                                               : MemoryFormat::kContiguous,
                        {.dtype = wanted, .device = device()});
  call<Op::kCopy>(device(), *this, result);
  return result;
}

Tensor Tensor::to(Device wanted) const {
  DL_CHECK(wanted == device(), kNotImplemented, "to: this build has no {}", wanted.str());
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source) {
  const Shape shape = broadcast_shapes(sizes(), source.sizes(), "copy_");
  DL_CHECK(shape == sizes(), kShape, "copy_: a source of shape {} does not fit into {}",
           source.sizes().str(), sizes().str());
  call<Op::kCopy>(device(), source, *this);
  bump_version();
  return *this;
}

Tensor& Tensor::fill_(Scalar value) {
  call<Op::kFill>(device(), *this, value);
  bump_version();
  return *this;
}

Tensor& Tensor::zero_() {
  return fill_(0);
}

}  // namespace dl
