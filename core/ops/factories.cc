// Factories that fill the new tensor.
#include "core/tensor/factories.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/order/order.h"

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

Tensor filled(const Shape& shape, Scalar value, DType dtype, const TensorOptions& options,
              std::string_view op) {
  check_storable(value, dtype, op);
  Tensor result = detail::make_empty(
      op, shape, {.dtype = dtype, .device = options.device, .pin_memory = options.pin_memory});
  call<Op::kFill>(options.device, result, value);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor filled_like(const Tensor& like, Scalar value) {
  Tensor result = empty_like(like);
  call<Op::kFill>(like.device(), result, value);
  return result;
}

// The number of steps of arange().
struct Steps {
  double count = 0;
  bool lead_to_end = true;
};

Steps steps_of(double first, double end, double by) {
  const double span = end - first;
  DL_CHECK(by != 0 && std::isfinite(span) && std::isfinite(by), kInvalidArgument,
           "arange: from {} to {} in steps of {} never ends", first, end, by);
  return {std::ceil(span / by), span == 0 || (span > 0) == (by > 0)};
}

// Exact, also if the span does not fit into int64: computed in uint64, which wraps around.
Steps steps_of(std::int64_t first, std::int64_t end, std::int64_t by) {
  DL_CHECK(by != 0, kInvalidArgument, "arange: from {} to {} in steps of {} never ends", first, end,
           by);
  const auto distance = [](std::int64_t low, std::int64_t high) {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  const std::uint64_t span = by > 0 ? distance(first, end) : distance(end, first);
  const std::uint64_t step = by > 0 ? distance(0, by) : distance(by, 0);
  const std::uint64_t count = span / step + (span % step != 0 ? 1 : 0);
  return {static_cast<double>(count), first == end || (end > first) == (by > 0)};
}

std::vector<double> spaced(double start, double end, std::int64_t steps, std::string_view op) {
  DL_CHECK(steps >= 0, kInvalidArgument, "{}: {} steps, wanted at least 0", op, steps);
  std::vector<double> values(static_cast<std::size_t>(steps));
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  for (std::int64_t i = 0; i < steps; ++i) {  // from the nearer end, so that both are exact
    values[static_cast<std::size_t>(i)] = i < steps / 2 || steps == 1
                                              ? start + step * static_cast<double>(i)
                                              : end - step * static_cast<double>(steps - 1 - i);
  }
  return values;
}

}  // namespace

Tensor zeros(const Shape& shape, TensorOptions options) {
  return filled(shape, 0, options.dtype.value_or(DType::kF32), options, "zeros");
}

Tensor ones(const Shape& shape, TensorOptions options) {
  return filled(shape, 1, options.dtype.value_or(DType::kF32), options, "ones");
}

Tensor zeros_like(const Tensor& like) {
  if (!like.defined()) refuse_undefined("zeros_like");
  return filled_like(like, 0);
}

Tensor ones_like(const Tensor& like) {
  if (!like.defined()) refuse_undefined("ones_like");
  return filled_like(like, 1);
}

Tensor full(const Shape& shape, Scalar value, TensorOptions options) {
  return filled(shape, value, options.dtype.value_or(dtype_of(value)), options, "full");
}

Tensor full_like(const Tensor& like, Scalar value) {
  if (!like.defined()) refuse_undefined("full_like");
  check_storable(value, like.dtype(), "full_like");
  return filled_like(like, value);
}

Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options) {
  const DType dtype = options.dtype.value_or(DType::kF32);
  if (options.device.type == DeviceType::kCPU || !is_floating(dtype) || steps < 2) {
    return tensor(spaced(start, end, steps, "linspace"), options);
  }
  // By the device itself, with the same bits.
  const NoGradGuard no_grad;
  const double step = (end - start) / static_cast<double>(steps - 1);
  const Tensor number = arange(steps, {.device = options.device});
  const Tensor from_start = number.to(DType::kF64) * step + start;
  const Tensor to_end = (number - (steps - 1)).to(DType::kF64) * step + end;
  Tensor result = where(number < steps / 2, from_start, to_end).to(dtype);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor logspace(double start, double end, std::int64_t steps, double base, TensorOptions options) {
  std::vector<double> values = spaced(start, end, steps, "logspace");
  for (double& value : values) value = std::pow(base, value);
  return tensor(values, options);
}

Tensor eye(std::int64_t rows, TensorOptions options) {
  return eye(rows, rows, options);
}

Tensor eye(std::int64_t rows, std::int64_t columns, TensorOptions options) {
  DL_CHECK(rows >= 0 && columns >= 0, kInvalidArgument, "eye: {} rows and {} columns", rows,
           columns);
  const bool requires_grad = std::exchange(options.requires_grad, false);
  Tensor result = filled({rows, columns}, 0, options.dtype.value_or(DType::kF32), options, "eye");
  const std::int64_t length = std::min(rows, columns);
  if (length > 0) {
    const Tensor diagonal = as_strided(result, {length}, {columns + 1}, 0);
    call<Op::kFill>(result.device(), diagonal, 1);
  }
  if (requires_grad) result.requires_grad_();
  return result;
}

Tensor arange(Scalar end, TensorOptions options) {
  return arange(0, end, 1, options);
}

Tensor arange(Scalar start, Scalar end, Scalar step, TensorOptions options) {
  const bool integers = start.kind() != Scalar::Kind::kFloating &&
                        end.kind() != Scalar::Kind::kFloating &&
                        step.kind() != Scalar::Kind::kFloating;
  if (integers) {
    for (const Scalar& given : {start, end, step}) check_fits(given, DType::kI64, "arange");
  }
  const Steps steps =
      integers ? steps_of(start.to<std::int64_t>(), end.to<std::int64_t>(), step.to<std::int64_t>())
               : steps_of(start.as_double(), end.as_double(), step.as_double());
  DL_CHECK(steps.lead_to_end, kInvalidArgument, "arange: steps of {} do not lead from {} to {}",
           step.as_double(), start.as_double(), end.as_double());
  DL_CHECK(steps.count < 0x1p53, kInvalidArgument,
           "arange: from {} to {} in steps of {} are too many elements", start.as_double(),
           end.as_double(), step.as_double());
  const auto count = static_cast<std::int64_t>(steps.count);
  const DType dtype = options.dtype.value_or(integers ? DType::kI64 : DType::kF32);
  const auto first = static_cast<std::uint64_t>(start.to<std::int64_t>());
  const auto by = static_cast<std::uint64_t>(step.to<std::int64_t>());
  const auto element = [&](std::int64_t i) -> Scalar {
    if (integers) return static_cast<std::int64_t>(first + static_cast<std::uint64_t>(i) * by);
    return start.as_double() + static_cast<double>(i) * step.as_double();
  };
  if (count > 0) {  // all others lie between these two
    check_fits(element(0), dtype, "arange");
    check_fits(element(count - 1), dtype, "arange");
  }
  Tensor result;
  if (options.device.type == DeviceType::kCPU) {
    result = empty({count}, {.dtype = dtype});
    visit_all(dtype, [&]<typename T>() {
      T* out = result.data<T>();
      for (std::int64_t i = 0; i < count; ++i) out[i] = element(i).template to<T>();
    });
  } else {
    // By the device itself: a copy from the host would have to be waited for.
    const NoGradGuard no_grad;
    const Tensor ones = full({count}, 1, {.dtype = DType::kI64, .device = options.device});
    const Tensor number = cumsum(ones, 0) - 1;
    result = integers ? number * static_cast<std::int64_t>(by) + static_cast<std::int64_t>(first)
                      : number.to(DType::kF64) * step.as_double() + start.as_double();
    result = result.to(dtype);
  }
  if (options.requires_grad) result.requires_grad_();
  return result;
}

namespace {

TensorOptions options_beside(const Tensor& like, const NewOptions& options, const char* op) {
  if (!like.defined()) refuse_undefined(op);
  return {.dtype = options.dtype.value_or(like.dtype()),
          .device = options.device.value_or(like.device()),
          .requires_grad = options.requires_grad,
          .pin_memory = options.pin_memory};
}

}  // namespace

Tensor Tensor::new_empty(const Shape& shape, NewOptions options) const {
  return empty(shape, options_beside(*this, options, "new_empty"));
}

Tensor Tensor::new_zeros(const Shape& shape, NewOptions options) const {
  return zeros(shape, options_beside(*this, options, "new_zeros"));
}

Tensor Tensor::new_ones(const Shape& shape, NewOptions options) const {
  return ones(shape, options_beside(*this, options, "new_ones"));
}

Tensor Tensor::new_full(const Shape& shape, Scalar value, NewOptions options) const {
  return full(shape, value, options_beside(*this, options, "new_full"));
}

Tensor Tensor::new_tensor(Scalar value, NewOptions options) const {
  return full({}, value, options_beside(*this, options, "new_tensor"));
}

Tensor Tensor::new_tensor(std::initializer_list<Scalar> values, NewOptions options) const {
  return tensor(values, options_beside(*this, options, "new_tensor"));
}

Tensor Tensor::new_tensor(std::initializer_list<std::initializer_list<Scalar>> rows,
                          NewOptions options) const {
  return tensor(rows, options_beside(*this, options, "new_tensor"));
}

Tensor Tensor::new_tensor(const Tensor& values, NewOptions options) const {
  if (!values.defined()) refuse_undefined("new_tensor");
  const TensorOptions wanted = options_beside(*this, options, "new_tensor");
  Tensor result =
      empty(values.sizes(),
            {.dtype = wanted.dtype, .device = wanted.device, .pin_memory = wanted.pin_memory});
  result.copy_(values.detach());
  if (wanted.requires_grad) result.requires_grad_();
  return result;
}

}  // namespace dl
