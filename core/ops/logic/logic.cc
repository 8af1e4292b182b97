#include "core/ops/logic/logic.h"

#include <cmath>
#include <limits>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

// True if no element of a bool tensor is true.
bool is_all_false(const Tensor& mask) {
  return sum(mask).item<std::int64_t>() == 0;
}

Tensor filled_with(const Tensor& like, bool value) {
  const Tensor result = empty_for(like.sizes(), {&like}, DType::kBool, like.device());
  call<Op::kFill>(like.device(), result, value);
  return result;
}

void check_one_dtype(const Tensor& a, const Tensor& b, std::string_view op) {
  check_defined(a, op, "the first operand");
  check_defined(b, op, "the second operand");
  DL_CHECK(a.dtype() == b.dtype(), kDType,
           "{}: one tensor is {}, the other {}; convert one of them with to()", op,
           name_of(a.dtype()), name_of(b.dtype()));
}

// fn(b, a), with the layout of a result of (a, b).
Tensor run_mirrored(BinaryFn fn, const Tensor& a, const Tensor& b, std::string_view op) {
  const DType dtype = computed_in(fn, common_dtype(a, b, op));
  const Tensor left = promoted_to(a, dtype);
  const Tensor right = promoted_to(b, dtype);
  return run_binary(fn, {right, left, empty_broadcast(left, right, DType::kBool, op)});
}

Tensor on_bits(BinaryFn fn, const Tensor& a, const Tensor& b) {
  return run_binary_as(fn, a, b, common_dtype(a, b, facts(fn).name));
}
Tensor on_bits(BinaryFn fn, const Tensor& a, Scalar b) {
  const std::string_view op = facts(fn).name;
  const DType dtype = computed_in(fn, dtype_with(a, b, op));
  return run_binary_as(fn, a, as_residue(b, dtype), dtype);
}

// compare(a, b) for a number b. A number out of range of a's dtype is larger, or smaller, than all
// elements.
Tensor compared(const Tensor& a, Scalar b, std::string_view op, bool of_larger, bool of_smaller,
                Tensor (*compare)(const Tensor&, const Tensor&)) {
  const bool fits = visit_all(dtype_with(a, b, op), [&]<typename T>() { return b.fits<T>(); });
  if (!fits) return filled_with(a, b.as_double() < 0 ? of_smaller : of_larger);
  return compare(a, as_element(a, b, op));
}

}  // namespace

#define DL_COMPARISON(name, fn, of_larger, of_smaller)              \
  Tensor name(const Tensor& a, const Tensor& b) {                   \
    return run_comparison(BinaryFn::fn, a, b);                      \
  }                                                                 \
  Tensor name(const Tensor& a, Scalar b) {                          \
    return compared(a, b, #name, of_larger, of_smaller, &dl::name); \
  }
DL_COMPARISON(eq, kEq, false, false)
DL_COMPARISON(ne, kNe, true, true)
DL_COMPARISON(lt, kLt, true, false)
DL_COMPARISON(le, kLe, true, false)
#undef DL_COMPARISON
Tensor gt(const Tensor& a, const Tensor& b) {
  return run_mirrored(BinaryFn::kLt, a, b, "gt");
}
Tensor ge(const Tensor& a, const Tensor& b) {
  return run_mirrored(BinaryFn::kLe, a, b, "ge");
}
Tensor gt(const Tensor& a, Scalar b) {
  return compared(a, b, "gt", false, true, &dl::gt);
}
Tensor ge(const Tensor& a, Scalar b) {
  return compared(a, b, "ge", false, true, &dl::ge);
}

#define DL_ON_BITS(name, fn)                      \
  Tensor name(const Tensor& a, const Tensor& b) { \
    return on_bits(BinaryFn::fn, a, b);           \
  }                                               \
  Tensor name(const Tensor& a, Scalar b) {        \
    return on_bits(BinaryFn::fn, a, b);           \
  }
DL_ON_BITS(bitwise_and, kBitwiseAnd)
DL_ON_BITS(bitwise_or, kBitwiseOr)
DL_ON_BITS(bitwise_xor, kBitwiseXor)
#undef DL_ON_BITS

#define DL_SHIFT(name, fn)                                    \
  Tensor name(const Tensor& a, const Tensor& b) {             \
    return on_bits(BinaryFn::fn, a, b);                       \
  }                                                           \
  Tensor name(const Tensor& a, Scalar b) {                    \
    return on_bits(BinaryFn::fn, a, as_element(a, b, #name)); \
  }
DL_SHIFT(bitwise_left_shift, kBitwiseLeftShift)
DL_SHIFT(bitwise_right_shift, kBitwiseRightShift)
#undef DL_SHIFT

Tensor bitwise_not(const Tensor& input) {
  check_defined(input, "bitwise_not", "the input");
  if (is_floating(input.dtype())) {
    refuse_dtype("bitwise_not", input.dtype(), "an integer dtype or bool");
  }
  if (input.dtype() == DType::kBool) return eq(input, false);
  return bitwise_xor(input, -1);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return run_comparison(BinaryFn::kLogicalAnd, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return run_comparison(BinaryFn::kLogicalOr, a, b);
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return run_comparison(BinaryFn::kLogicalXor, a, b);
}
Tensor logical_not(const Tensor& input) {
  check_defined(input, "logical_not", "the input");
  return eq(input, false);
}

Tensor isnan(const Tensor& input) {
  check_defined(input, "isnan", "the input");
  return is_floating(input.dtype()) ? ne(input, input) : filled_with(input, false);
}

Tensor isinf(const Tensor& input) {
  check_defined(input, "isinf", "the input");
  if (!is_floating(input.dtype())) return filled_with(input, false);
  return eq(abs(input.detach()), std::numeric_limits<double>::infinity());
}

Tensor isfinite(const Tensor& input) {
  check_defined(input, "isfinite", "the input");
  if (!is_floating(input.dtype())) return filled_with(input, true);
  return lt(abs(input.detach()), std::numeric_limits<double>::infinity());
}

Tensor isclose(const Tensor& first, const Tensor& second, CloseOptions options) {
  check_one_dtype(first, second, "isclose");
  DL_CHECK(options.rtol >= 0 && options.atol >= 0, kInvalidArgument,
           "isclose: rtol is {} and atol {}, wanted at least 0", options.rtol, options.atol);
  const NoGradGuard no_grad;
  const bool floating = is_floating(first.dtype());
  Tensor close = eq(first, second);
  if (options.equal_nan && floating) {
    close = logical_or(close, logical_and(isnan(first), isnan(second)));
  }
  if (options.rtol == 0 && options.atol == 0) return close;
  const Tensor a = floating ? first : first.to(DType::kF32);
  const Tensor b = floating ? second : second.to(DType::kF32);
  const Tensor allowed = add(abs(mul(b, options.rtol)), options.atol);
  const Tensor off = abs(sub(a, b));
  return logical_or(close, logical_and(isfinite(off), le(off, allowed)));
}

bool allclose(const Tensor& a, const Tensor& b, CloseOptions options) {
  return is_all_false(logical_not(isclose(a, b, options)));
}

bool equal(const Tensor& a, const Tensor& b) {
  check_one_dtype(a, b, "equal");
  return a.sizes() == b.sizes() && is_all_false(ne(a, b));
}

}  // namespace dl
