#include "core/ops/common.h"

#include <cstdint>

#include "core/ops/reduce/reduce.h"

namespace dl {

void check_defined(const Tensor& tensor, std::string_view op, std::string_view argument) {
  DL_CHECK(tensor.defined(), kInvalidArgument, "{}: {} is an undefined tensor", op, argument);
}

void check_same_device(const Tensor& a, const Tensor& b, std::string_view op) {
  DL_CHECK(a.device() == b.device(), kInvalidArgument,
           "{}: one tensor is on {}, the other on {}; move one of them with to()", op,
           a.device().str(), b.device().str());
}

void check_floating(const Tensor& tensor, std::string_view op) {
  if (!is_floating(tensor.dtype())) refuse_dtype(op, tensor.dtype(), "a floating dtype");
}

void check_writable(const Tensor& self, const Shape& result, DType dtype, std::string_view op) {
  DL_CHECK(result == self.sizes(), kShape, "{}: a result of shape {} does not fit into {}", op,
           result.str(), self.sizes().str());
  const bool loses = (is_floating(dtype) && !is_floating(self.dtype())) ||
                     (dtype != DType::kBool && self.dtype() == DType::kBool);
  DL_CHECK(!loses, kDType, "{}: a result of dtype {} cannot be written into a tensor of {}", op,
           name_of(dtype), name_of(self.dtype()));
}

namespace {

// True if the two share no memory because one storage has none yet. Asking a deferred storage for
// its memory would copy the elements.
bool is_separate(const Tensor& a, const Tensor& b) noexcept {
  return a.storage() != b.storage() &&
         (a.storage()->data_or_null() == nullptr || b.storage()->data_or_null() == nullptr);
}

// The address of the first byte; for tensors of one storage, its offset there.
std::uintptr_t address_of(const Tensor& tensor, const Tensor& other) noexcept {
  const auto first = tensor.storage() == other.storage()
                         ? std::uintptr_t{0}
                         : reinterpret_cast<std::uintptr_t>(tensor.storage()->data_or_null());
  return first + static_cast<std::size_t>(tensor.storage_offset()) * size_of(tensor.dtype());
}

}  // namespace

bool may_overlap(const Tensor& a, const Tensor& b) noexcept {
  if (a.numel() == 0 || b.numel() == 0 || is_separate(a, b)) return false;
  const auto end = [](const Tensor& tensor, const Tensor& other) {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < tensor.sizes().size(); ++d) {
      last += (tensor.sizes()[d] - 1) * tensor.strides()[d];
    }
    return address_of(tensor, other) + static_cast<std::size_t>(last + 1) * size_of(tensor.dtype());
  };
  return address_of(a, b) < end(b, a) && address_of(b, a) < end(a, b);
}

Tensor readable_during_write(const Tensor& operand, const Tensor& written) {
  const bool alike = !is_separate(operand, written) &&
                     address_of(operand, written) == address_of(written, operand) &&
                     operand.sizes() == written.sizes() && operand.strides() == written.strides();
  // If both have the same elements in the same order, each is read before it is written.
  return alike || !may_overlap(operand, written) ? operand : operand.detach().clone();
}

Tensor scalar_tensor(Scalar value, DType dtype, std::string_view op, Device device) {
  check_fits(value, dtype, op);
  Tensor result = empty({}, {.dtype = dtype, .device = device});
  call<Op::kFill>(device, result, value);
  return result;
}

namespace {

struct MaskedBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "masked"; }
  void backward(BackwardContext& context) override {
    context.give(0, masked(context.grad_output(), saved(0)));
  }
};

}  // namespace

Tensor masked(const Tensor& gradient, const Tensor& mask) {
  const Tensor dense = gradient.contiguous();
  Tensor result = empty_like(dense);
  const Tensor kept = mask.contiguous();
  call<Op::kMaskScale>(dense.device(), dense, kept, 1.0, result);
  if (auto* node = record<MaskedBackward>(result, dense)) node->save(kept);
  return result;
}

Tensor sum_to(const Tensor& gradient, const Shape& shape) {
  if (gradient.sizes() == shape) return gradient;
  const std::size_t lead = gradient.sizes().size() - shape.size();
  Dims dims;
  for (std::size_t d = 0; d < gradient.sizes().size(); ++d) {
    if (d < lead || (shape[d - lead] == 1 && gradient.sizes()[d] != 1)) {
      dims.push_back(static_cast<std::int64_t>(d));
    }
  }
  return sum(gradient, dims, {.keepdim = true}).view(shape);
}

Tensor& write_result(Tensor& self, std::string_view op, bool recorded,
                     const std::function<Tensor(const Tensor&)>& result) {
  check_in_place(self, recorded, op);
  check_not_expanded(self, op);
  // A node may save its input, which is overwritten below.
  const Tensor computed = result(recorded ? detail::before_write(self).clone() : self);
  check_writable(self, computed.sizes(), computed.dtype(), op);
  if (!computed.requires_grad() || computed.dtype() != self.dtype()) return self.copy_(computed);
  const Ref<Node> node = gradient_edge(computed).node;
  call<Op::kCopy>(self.device(), computed.detach(), self.detach());
  self.bump_version();
  detail::attach_written(self, node);
  return self;
}

}  // namespace dl
