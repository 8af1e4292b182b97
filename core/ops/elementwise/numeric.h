// Powers, remainders, `where`, clamp and similar operations on tensors and numbers.
//
// Operands are broadcast and promoted as in arithmetic.h; a number counts as a 0-d tensor.
#pragma once

#include <optional>

#include "core/ops/elementwise/elementwise.h"
#include "core/tensor/tensor.h"

namespace dl {

// base^exponent. Integers to an integer power give integers, which wrap around; throws
// kInvalidArgument for a negative number as the exponent of integers.
Tensor pow(const Tensor& base, Scalar exponent);
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(Scalar base, const Tensor& exponent);

// 0 if a < 0 or a is NaN, 1 if a > 0, else b. Both have one dtype. No gradient.
Tensor heaviside(const Tensor& a, const Tensor& b);

// Remainders of a / b: fmod has the sign of a, as in C; remainder has the sign of b, as in Python.
// floor_divide rounds the quotient down and has no gradient. Throws kInvalidArgument if integers
// are divided by 0.
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

// input + value a b, and input + value a / b (floating tensors only), rounded once. Throws kDType
// if the result has an integer dtype and `value` is not an integer.
Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value = 1);
Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value = 1);

// Replaces NaN, infinity and -infinity; the defaults for infinities are the largest and the lowest
// finite number of the dtype. The gradient of replaced elements is 0.
Tensor nan_to_num(const Tensor& input, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});

// a if the condition (bool) is true, else b, element by element.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
Tensor where(const Tensor& condition, Scalar a, Scalar b);

// min(max(input, min), max); so max if min > max, and NaN if one of them is NaN. The gradient is
// nonzero if min < input < max. A bound beyond the range of an integer dtype has no effect. Throws
// kInvalidArgument if both bounds are missing, or if no value of an integer dtype is within them.
Tensor clamp(const Tensor& input, std::optional<Scalar> min, std::optional<Scalar> max = {});
// clamp() with tensors. The gradient goes to the operand that is the result; if the input equals a
// bound, each gets half.
Tensor clamp(const Tensor& input, const Tensor& min, const Tensor& max);
Tensor clamp_min(const Tensor& input, Scalar min);
Tensor clamp_max(const Tensor& input, Scalar max);
Tensor& clamp_(Tensor& input, std::optional<Scalar> min, std::optional<Scalar> max = {});

// `value` if the mask (bool, broadcast to the input's shape) is true, else the input; the input's
// dtype. A tensor `value` is 0-d.
Tensor masked_fill(const Tensor& input, const Tensor& mask, Scalar value);
Tensor masked_fill(const Tensor& input, const Tensor& mask, const Tensor& value);
Tensor& masked_fill_(Tensor& input, const Tensor& mask, Scalar value);
Tensor& masked_fill_(Tensor& input, const Tensor& mask, const Tensor& value);

}  // namespace dl
