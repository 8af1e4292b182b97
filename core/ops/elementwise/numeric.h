// Powers, remainders, choices and limits, of tensors and numbers.
//
// Operands are broadcast and promoted as in arithmetic.h; a number counts as a tensor without
// dimensions.
#pragma once

#include <optional>

#include "core/tensor/tensor.h"

namespace dl {

// base^exponent. Integers to an integer give integers, which wrap around; throws kInvalidArgument
// for a negative number as the exponent of integers.
Tensor pow(const Tensor& base, Scalar exponent);
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(Scalar base, const Tensor& exponent);

// The angle of the point (x, y) = (b, a), in (-pi, pi]. Integers give float32.
Tensor atan2(const Tensor& a, const Tensor& b);

// sqrt(a a + b b), log(e^a + e^b) and log2(2^a + 2^b) of floating tensors, without overflow on the
// way.
Tensor hypot(const Tensor& a, const Tensor& b);
Tensor logaddexp(const Tensor& a, const Tensor& b);
Tensor logaddexp2(const Tensor& a, const Tensor& b);

// a with the sign of b, also of -0. Integers give float32.
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Scalar b);

// 0 where a < 0 or NaN, 1 where a > 0, else b, of one dtype. A step, without a gradient.
Tensor heaviside(const Tensor& a, const Tensor& b);

// What is left of a / b: fmod has the sign of a, as in C, remainder that of b, as in Python.
// floor_divide rounds the quotient down and has no gradient. Throws kInvalidArgument for integers
// that are divided by 0.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
inline Tensor operator%(const Tensor& a, const Tensor& b) {
  return remainder(a, b);
}
inline Tensor operator%(const Tensor& a, Scalar b) {
  return remainder(a, b);
}

// a + weight (b - a), floating tensors of one dtype.
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);

// input + value a b, and input + value a / b, rounded once; the latter of floating tensors. Throws
// kDType for a value that is no whole number if the result is of integers.
Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value = 1);
Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value = 1);

// The input with numbers in the place of NaN, infinity and -infinity; the largest and the least of
// the dtype if none are given. Its gradient is 0 there.
Tensor nan_to_num(const Tensor& input, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});

// a where the condition (bool) is true, else b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
Tensor where(const Tensor& condition, Scalar a, Scalar b);

// `input`, at least min and at most max; max where min is larger, and NaN where one of them is. The
// gradient reaches the input where min < input < max. A bound beyond the range of an integer dtype
// changes nothing. Throws kInvalidArgument if both are left out, or if no element of an integer
// dtype is within the bounds.
Tensor clamp(const Tensor& input, std::optional<Scalar> min, std::optional<Scalar> max = {});
// The gradient goes to the input or bound that is the result; if an input equals a bound, each gets
// half.
Tensor clamp(const Tensor& input, const Tensor& min, const Tensor& max);
Tensor clamp_min(const Tensor& input, Scalar min);
Tensor clamp_max(const Tensor& input, Scalar max);
Tensor& clamp_(Tensor& input, std::optional<Scalar> min, std::optional<Scalar> max = {});

// `input` with `value` where the mask (bool, broadcast to its shape) is true; the input's dtype. A
// tensor `value` has no dimensions.
Tensor masked_fill(const Tensor& input, const Tensor& mask, Scalar value);
Tensor masked_fill(const Tensor& input, const Tensor& mask, const Tensor& value);
Tensor& masked_fill_(Tensor& input, const Tensor& mask, Scalar value);
Tensor& masked_fill_(Tensor& input, const Tensor& mask, const Tensor& value);

}  // namespace dl
