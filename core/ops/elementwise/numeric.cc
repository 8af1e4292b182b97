#include "core/ops/elementwise/numeric.h"

#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tape/recorder.h"
#include "core/tensor/dtype_types.h"

namespace dl {
namespace {

void check_no_zero(bool has_zero, std::string_view op) {
  DL_CHECK(!has_zero, kInvalidArgument,
           "{}: the divisor is 0 somewhere, by which integers cannot be divided; convert one "
           "operand to a floating dtype",
           op);
}

void check_elements(const Tensor& divisor, std::string_view op) {
  check_no_zero(sum(eq(divisor, 0)).item<std::int64_t>() > 0, op);
}

void check_divisor(const Tensor& divisor, DType dtype, std::string_view op) {
  if (is_floating(dtype) || divisor.numel() == 0) return;
  if (divisor.is_cuda()) return check_elements(divisor, op);
  tape::run(op, 0, &check_elements, divisor, op);  // a tape checks again
}

void check_divisor(Scalar divisor, DType dtype, std::string_view op) {
  if (is_floating(dtype)) return;
  visit_all(dtype, [&]<typename T>() { check_no_zero(divisor.to<T>() == T(0), op); });
}

}  // namespace

Tensor pow(const Tensor& base, Scalar exponent) {
  check_defined(base, "pow", "the base");
  if (is_floating(base.dtype()) || exponent.kind() == Scalar::Kind::kFloating) {
    const Tensor floating = is_floating(base.dtype()) ? base : base.to(DType::kF32);
    return unary(UnaryFn::kPow, floating, {.a = exponent.as_double()});
  }
  DL_CHECK(exponent.as_double() >= 0, kInvalidArgument,
           "pow: the exponent of integers is {}, wanted at least 0; convert the base to a floating "
           "dtype",
           exponent.str());
  const Tensor number = number_beside(base, exponent, BinaryFn::kPower);
  return run_binary_as(BinaryFn::kPower, base, number, number.dtype());
}

Tensor pow(const Tensor& base, const Tensor& exponent) {
  if (const auto cast = autocast_of(BinaryFn::kPower, base)) return pow(cast(base), cast(exponent));
  return run_recorded(BinaryFn::kPower, base, exponent, common_dtype(base, exponent, "pow"));
}

Tensor pow(Scalar base, const Tensor& exponent) {
  if (const auto cast = autocast_of(BinaryFn::kPower, exponent)) return pow(base, cast(exponent));
  const Tensor number = number_beside(exponent, base, BinaryFn::kPower);
  const DType dtype = computed_in(BinaryFn::kPower, dtype_with(exponent, base, "pow"));
  BinaryOperands operands = prepare_operands(number, exponent, dtype, "pow");
  Tensor& out = operands.out;
  // PyTorch's result is row-major as well.
  if (!out.is_contiguous())
    out = empty(out.sizes(), {.dtype = out.dtype(), .device = out.device()});
  return run_with_number_a(BinaryFn::kPower, exponent, operands);
}

Tensor heaviside(const Tensor& a, const Tensor& b) {
  check_defined(a, "heaviside", "the first operand");
  check_defined(b, "heaviside", "the second operand");
  DL_CHECK(a.dtype() == b.dtype(), kDType, "heaviside: one operand is {}, the other {}",
           name_of(a.dtype()), name_of(b.dtype()));
  return run_binary_as(BinaryFn::kHeaviside, a, b, a.dtype());
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  const DType dtype = common_dtype(a, b, "fmod");
  check_divisor(b, dtype, "fmod");
  return run_recorded(BinaryFn::kFmod, a, b, dtype);
}
Tensor fmod(const Tensor& a, Scalar b) {
  const Tensor number = number_beside(a, b, BinaryFn::kFmod);
  check_divisor(b, number.dtype(), "fmod");
  return run_with_number_b(BinaryFn::kFmod, a, b, number);
}

Tensor remainder(const Tensor& a, const Tensor& b) {
  const DType dtype = common_dtype(a, b, "remainder");
  check_divisor(b, dtype, "remainder");
  return run_recorded(BinaryFn::kRemainder, a, b, dtype);
}
Tensor remainder(const Tensor& a, Scalar b) {
  const Tensor number = number_beside(a, b, BinaryFn::kRemainder);
  check_divisor(b, number.dtype(), "remainder");
  return run_with_number_b(BinaryFn::kRemainder, a, b, number);
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  const DType dtype = common_dtype(a, b, "floor_divide");
  check_divisor(b, dtype, "floor_divide");
  return run_binary_as(BinaryFn::kFloorDivide, a, b, dtype);
}
Tensor floor_divide(const Tensor& a, Scalar b) {
  const Tensor number = number_beside(a, b, BinaryFn::kFloorDivide);
  check_divisor(b, number.dtype(), "floor_divide");
  return run_binary_as(BinaryFn::kFloorDivide, a, number, dtype_with(a, b, "floor_divide"));
}

}  // namespace dl
