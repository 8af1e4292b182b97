// Factories that write their elements.
#include "core/tensor/factories.h"

#include <cmath>

#include "core/ops/dispatch.h"

namespace dl {
namespace {

DType dtype_of(Scalar value) {
  switch (value.kind()) {
    case Scalar::Kind::kBool:
      return DType::kBool;
    case Scalar::Kind::kInteger:
      return DType::kI64;
    case Scalar::Kind::kFloating:
      return DType::kF32;
  }
  return DType::kF32;
}

Tensor filled(const Shape& shape, Scalar value, DType dtype, const TensorOptions& options) {
  Tensor result = empty(shape, {.dtype = dtype, .device = options.device});
  call<Op::kFill>(options.device, result, value);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor filled_like(const Tensor& like, Scalar value) {
  Tensor result = empty_like(like);
  call<Op::kFill>(like.device(), result, value);
  return result;
}

}  // namespace

Tensor zeros(const Shape& shape, TensorOptions options) {
  return filled(shape, 0, options.dtype.value_or(DType::kF32), options);
}

Tensor ones(const Shape& shape, TensorOptions options) {
  return filled(shape, 1, options.dtype.value_or(DType::kF32), options);
}

Tensor zeros_like(const Tensor& like) {
  return filled_like(like, 0);
}

Tensor ones_like(const Tensor& like) {
  return filled_like(like, 1);
}

Tensor full(const Shape& shape, Scalar value, TensorOptions options) {
  return filled(shape, value, options.dtype.value_or(dtype_of(value)), options);
}

Tensor arange(Scalar end, TensorOptions options) {
  return arange(0, end, 1, options);
}

Tensor arange(Scalar start, Scalar end, Scalar step, TensorOptions options) {
  const bool integers = start.kind() != Scalar::Kind::kFloating &&
                        end.kind() != Scalar::Kind::kFloating &&
                        step.kind() != Scalar::Kind::kFloating;
  const double first = start.as_double();
  const double by = step.as_double();
  const double span = end.as_double() - first;
  DL_CHECK(by != 0 && std::isfinite(span) && std::isfinite(by), kInvalidArgument,
           "arange: from {} to {} in steps of {} never ends", first, end.as_double(), by);
  DL_CHECK(span == 0 || (span > 0) == (by > 0), kInvalidArgument,
           "arange: steps of {} do not lead from {} to {}", by, first, end.as_double());
  const double steps = std::ceil(span / by);
  DL_CHECK(steps < 0x1p53, kInvalidArgument,
           "arange: from {} to {} in steps of {} are too many elements", first, end.as_double(),
           by);
  const auto count = static_cast<std::int64_t>(steps);
  Tensor result =
      empty({count}, {.dtype = options.dtype.value_or(integers ? DType::kI64 : DType::kF32)});
  visit_all(result.dtype(), [&]<typename T>() {
    T* out = result.data<T>();
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = integers ? convert<T>(start.to<std::int64_t>() + i * step.to<std::int64_t>())
                        : convert<T>(first + static_cast<double>(i) * by);
    }
  });
  if (options.requires_grad) result.requires_grad_();
  return result;
}

}  // namespace dl
