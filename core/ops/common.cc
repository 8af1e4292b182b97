#include "core/ops/common.h"

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

Tensor scalar_tensor(Scalar value, DType dtype, Device device) {
  Tensor result = empty({}, {.dtype = dtype, .device = device});
  call<Op::kFill>(device, result, value);
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
