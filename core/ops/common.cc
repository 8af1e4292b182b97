#include "core/ops/common.h"

#include <functional>

#include "core/ops/reduce.h"

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

bool may_overlap(const Tensor& a, const Tensor& b) noexcept {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto end = [](const Tensor& tensor) {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < tensor.sizes().size(); ++d) {
      last += (tensor.sizes()[d] - 1) * tensor.strides()[d];
    }
    return static_cast<const char*>(tensor.data_ptr()) +
           (last + 1) * static_cast<std::int64_t>(size_of(tensor.dtype()));
  };
  const std::less<const void*> before;  // whatever memory the pointers are of
  return before(a.data_ptr(), end(b)) && before(b.data_ptr(), end(a));
}

Tensor readable_during_write(const Tensor& operand, const Tensor& written) {
  const bool alike = operand.data_ptr() == written.data_ptr() &&
                     operand.sizes() == written.sizes() && operand.strides() == written.strides();
  // If both are the same elements in the same order, each is read before it is written.
  return alike || !may_overlap(operand, written) ? operand : operand.detach().clone();
}

Tensor scalar_tensor(Scalar value, DType dtype, std::string_view op, Device device) {
  check_fits(value, dtype, op);
  Tensor result = empty({}, {.dtype = dtype, .device = device});
  call<Op::kFill>(device, result, value);
  return result;
}

Tensor masked(const Tensor& gradient, const Tensor& mask) {
  const Tensor dense = gradient.contiguous();
  Tensor result = empty_like(dense);
  call<Op::kMaskScale>(dense.device(), dense, mask.contiguous(), 1.0, result);
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

}  // namespace dl
