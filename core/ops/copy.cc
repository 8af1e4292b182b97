// Copies: contiguous, clone, to, copy_, and writes in place of one value.
#include "core/ops/common.h"

namespace dl {
namespace {

// clone, contiguous and to: the gradient comes back in the input's dtype.
struct CopyBackward final : Node {
  std::string_view name() const noexcept override { return "copy"; }
  void backward(BackwardContext& context) override {
    context.give(0, context.grad_output().to(dtype));
  }
  DType dtype = DType::kF32;
};

// copy_: input 0 is what was overwritten, which gets no gradient.
struct OverwriteBackward final : Node {
  std::string_view name() const noexcept override { return "copy_"; }
  void backward(BackwardContext& context) override {
    if (context.needs(1)) context.give(1, sum_to(context.grad_output(), shape).to(dtype));
  }
  Shape shape;
  DType dtype = DType::kF32;
};

struct FillBackward final : Node {
  std::string_view name() const noexcept override { return "fill_"; }
  void backward(BackwardContext&) override {}
};

Tensor copied(const Tensor& input, Tensor result) {
  call<Op::kCopy>(input.device(), input, result);
  if (!is_floating(result.dtype())) return result;
  if (auto* node = record<CopyBackward>(result, input)) node->dtype = input.dtype();
  return result;
}

}  // namespace

Tensor Tensor::contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::kPreserve || is_contiguous(format)) return *this;
  return clone(format);
}

Tensor Tensor::clone(MemoryFormat format) const {
  return copied(*this, empty_like(*this, format));
}

Tensor Tensor::to(DType wanted) const {
  if (wanted == dtype()) return *this;
  const bool channels_last = is_channels_last() && !is_contiguous();
  return copied(
      *this, empty(sizes(), channels_last ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous,
                   {.dtype = wanted, .device = device()}));
}

Tensor Tensor::to(Device wanted) const {
  DL_CHECK(wanted == device(), kNotImplemented,
           "to: a tensor on {} cannot move to {}, which this build does not know", device().str(),
           wanted.str());
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source) {
  check_defined(source, "copy_", "the source");
  check_same_device(*this, source, "copy_");
  const Shape shape = broadcast_shapes(sizes(), source.sizes(), "copy_");
  DL_CHECK(shape == sizes(), kShape, "copy_: a source of shape {} does not fit into {}",
           source.sizes().str(), sizes().str());
  const bool recorded = is_recorded(*this, source) && is_floating(dtype());
  check_in_place(*this, recorded, "copy_");
  check_not_expanded(*this, "copy_");
  const Ref<OverwriteBackward> node =
      recorded ? make_node<OverwriteBackward>(*this, source) : nullptr;
  call<Op::kCopy>(device(), readable_during_write(source, *this), *this);
  bump_version();
  if (node) {
    node->shape = source.sizes();
    node->dtype = source.dtype();
    detail::attach(*this, node, 0);
  }
  return *this;
}

Tensor& Tensor::fill_(Scalar value) {
  const bool recorded = is_recorded(*this);
  check_in_place(*this, recorded, "fill_");
  // An expanded tensor may be filled, as in PyTorch: every write of an element writes the same.
  call<Op::kFill>(device(), *this, value);
  bump_version();
  if (recorded) record<FillBackward>(*this, *this);
  return *this;
}

Tensor& Tensor::zero_() {
  return fill_(0);
}

}  // namespace dl
