// Copies: contiguous, clone, to, copy_, fill_ and zero_.
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/graph.h"
#include "core/device/cuda/module/module.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/ops/common.h"
#include "core/ops/layout.h"
#include "core/tensor/layout/deferred.h"

namespace dl {
namespace {

// clone, contiguous and to: converts the gradient to the input's dtype and device.
struct CopyBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "clone"; }
  void backward(BackwardContext& context) override {
    context.give(0, context.grad_output().to(device).to(dtype));
  }
  DType dtype = DType::kF32;
  Device device{};
};

// copy_: input 0 is the overwritten tensor. Its gradient is zeros, not undefined, because
// optimizers skip a parameter without a gradient, also its weight decay and momentum.
struct OverwriteBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "copy_"; }
  std::string grad_fn_name() const override { return "CopyBackwards"; }
  void backward(BackwardContext& context) override {
    if (context.needs(0)) context.give(0, zeros_like(context.grad_output()));
    if (context.needs(1)) {
      context.give(1, sum_to(context.grad_output(), shape).to(device).to(dtype));
    }
  }
  Shape shape;
  DType dtype = DType::kF32;
  Device device{};
};

struct FillBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "fill_"; }
  std::string grad_fn_name() const override { return "FillBackward2"; }
  void backward(BackwardContext& context) override {
    context.give(0, zeros_like(context.grad_output()));
  }
};

bool is_same_layout(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         is_dense(a.sizes(), a.strides());
}

// Copies the bytes of a dense tensor to another of the same layout, in the order of the CUDA
// device's current stream. Between two devices, each stream waits for the other.
void copy_bytes(const Tensor& source, const Tensor& destination, bool non_blocking) {
  if (source.numel() == 0) return;
  const bool both = source.is_cuda() && destination.is_cuda();
  const Device device = source.is_cuda() ? source.device() : destination.device();
  const Stream stream = cuda::current_stream(device.index);
  const Stream other = both ? cuda::current_stream(destination.device().index) : stream;
  if (both) {
    // The other device's stream would join the capture, with all work of other threads on it, and
    // its memory is in no pool of the graph.
    cuda::refuse_in_capture("a copy between two devices cannot be captured");
    cuda::join(stream, other);
  } else {
    cuda::refuse_in_capture(
        "a copy between host and device cannot be captured (cpu(), item(), to())");
  }
  cuda::copy(destination.data_ptr(), source.data_ptr(), source.nbytes(), stream);
  if (both) {
    cuda::join(other, stream);
    cuda::record_stream(destination.device().index, destination.storage()->data(), stream);
    return;
  }
  const Tensor& host = source.is_cuda() ? destination : source;
  if (!non_blocking || !host.is_pinned()) {
    if (source.is_cuda()) {
      cuda::synchronize(stream);
    } else {  // a copy to the device may repair garbage there (watched_error.h)
      cuda::runtime().synchronize_stream(stream.handle);
    }
  } else {
    cuda::record_pinned_use(host.storage()->data(), stream);
  }
}

// destination = source on different devices. A source that is not dense, or has another dtype, is
// first converted to the destination's form on its own device.
void copy_across(const Tensor& source, const Tensor& destination, bool non_blocking) {
  if (is_same_layout(source, destination)) {
    return copy_bytes(source, destination, non_blocking);
  }
  Tensor there = is_dense(destination.sizes(), destination.strides())
                     ? destination
                     : empty_like(destination, MemoryFormat::kContiguous);
  const Tensor here =
      as_strided(empty(there.sizes(), {.dtype = there.dtype(), .device = source.device()}),
                 there.sizes(), there.strides(), 0);
  call<Op::kCopy>(source.device(), source, here);
  copy_bytes(here, there, false);
  if (!there.is_same(destination)) call<Op::kCopy>(destination.device(), there, destination);
}

void copy_any(const Tensor& source, const Tensor& destination, bool non_blocking) {
  if (source.device() == destination.device()) {
    call<Op::kCopy>(source.device(), source, destination);
  } else {
    copy_across(source, destination, non_blocking);
  }
}

Tensor copied(const Tensor& input, const Tensor& result, ToOptions options = {}) {
  copy_any(input, result, options.non_blocking);
  if (!is_floating(result.dtype())) return result;
  if (auto* node = record<CopyBackward>(result, input)) {
    node->dtype = input.dtype();
    node->device = input.device();
  }
  return result;
}

Tensor& fill_all(Tensor& tensor, Scalar value, std::string_view op) {
  check_in_place(tensor, is_recorded(tensor), op);
  const Ref<FillBackward> node = make_node<FillBackward>(detail::before_write(tensor));
  // An expanded tensor may be filled, as in PyTorch: all writes to an element write the same value.
  call<Op::kFill>(tensor.device(), tensor, value);
  tensor.bump_version();
  if (node) detail::attach_written(tensor, node);
  return tensor;
}

}  // namespace

void detail::copy_elements(const Tensor& source, const Tensor& destination) {
  call<Op::kCopy>(source.device(), source, destination);
}

Tensor detail::in_stored_format(const Tensor& tensor, MemoryFormat format) {
  const StoredOrder stored(tensor);
  if (stored->is_contiguous(format)) return *stored;
  const NoGradGuard not_recorded;
  return tensor.contiguous(format);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  get("contiguous");
  if (format == MemoryFormat::kPreserve) return *this;
  if (!is_contiguous(format)) return clone(format);
  impl_->data();  // settles the storage: the caller wants the memory in this order
  return *this;
}

Tensor Tensor::clone(MemoryFormat format) const {
  get("clone");
  return copied(*this, empty_like(*this, format));
}

Tensor Tensor::to(DType wanted) const {
  get("to");
  if (wanted == dtype()) return *this;
  const Tensor result = copied(*this, detail::empty_copy(*this, wanted));
  return is_floating(wanted) ? detail::finish_composed(result, *this, "ToCopyBackward0") : result;
}

Tensor Tensor::to(Device wanted, ToOptions options) const {
  get("to");
  if (wanted == device()) return *this;
  const Tensor form = is_dense(sizes(), strides()) ? *this : contiguous();
  const Shape& shape = form.sizes();
  Tensor result =
      as_strided(empty(shape, {.dtype = dtype(), .device = wanted}), shape, form.strides(), 0);
  return copied(form, result, options);
}

Tensor Tensor::to(std::string_view device, ToOptions options) const {
  return to(dl::cuda::parse_device(device), options);
}

Tensor Tensor::cuda() const {
  get("cuda");
  return cuda(dl::cuda::current_device());
}

Tensor Tensor::cuda(int index) const {
  get("cuda");
  return to(Device{DeviceType::kCUDA, static_cast<std::int16_t>(index)});
}

Tensor Tensor::pin_memory() const {
  get("pin_memory");
  if (is_pinned()) return *this;
  DL_CHECK(!is_cuda(), kInvalidArgument, "pin_memory: the tensor is on {}, wanted one on the cpu",
           device().str());
  const bool dense = is_dense(sizes(), strides());
  Tensor result = empty(sizes(), {.dtype = dtype(), .pin_memory = true});
  if (dense) result = as_strided(result, sizes(), strides(), 0);
  return copied(*this, result);
}

bool Tensor::is_pinned() const {
  get("is_pinned");
  return !is_cuda() && dl::cuda::is_pinned(storage()->data());
}

Tensor& Tensor::copy_(const Tensor& source, ToOptions options) {
  get("copy_");
  check_defined(source, "copy_", "the source");
  const Shape shape = broadcast_shapes(sizes(), source.sizes(), "copy_");
  DL_CHECK(shape == sizes(), kShape, "copy_: a source of shape {} does not fit into {}",
           source.sizes().str(), sizes().str());
  const bool recorded = is_recorded(*this, source) && is_floating(dtype());
  check_in_place(*this, recorded, "copy_");
  check_not_expanded(*this, "copy_");
  const Ref<OverwriteBackward> node =
      recorded ? make_node<OverwriteBackward>(detail::before_write(*this), source) : nullptr;
  copy_any(readable_during_write(source, *this), *this, options.non_blocking);
  bump_version();
  if (node) {
    node->shape = source.sizes();
    node->dtype = source.dtype();
    node->device = source.device();
    detail::attach_written(*this, node);
  }
  return *this;
}

Tensor& Tensor::fill_(Scalar value) {
  get("fill_");
  check_storable(value, dtype(), "fill_");
  return fill_all(*this, value, "fill_");
}

Tensor& Tensor::zero_() {
  get("zero_");
  return fill_all(*this, 0, "zero_");
}

}  // namespace dl
