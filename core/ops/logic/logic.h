// Comparisons, and logical and bitwise operations, element by element.
//
// Operands are broadcast and promoted as in arithmetic.h; a number counts as a 0-d tensor. Nothing
// here has a gradient. Bitwise operations accept integers and bool, and throw kDType for others.
#pragma once

#include "core/tensor/tensor.h"

namespace dl {

// Each of them also accepts a number on the right.
#define DL_BOTH_FORMS(name)                      \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, Scalar b);
// The result is bool.
DL_BOTH_FORMS(eq)
DL_BOTH_FORMS(ne)
DL_BOTH_FORMS(lt)
DL_BOTH_FORMS(le)
DL_BOTH_FORMS(gt)
DL_BOTH_FORMS(ge)
DL_BOTH_FORMS(bitwise_and)
DL_BOTH_FORMS(bitwise_or)
DL_BOTH_FORMS(bitwise_xor)
// The bits of a shifted by b. If b is negative, or at least the number of bits, the result is 0;
// for a right shift of a signed integer it is 0 or -1, by the sign. Throws kDType for two bools.
DL_BOTH_FORMS(bitwise_left_shift)
DL_BOTH_FORMS(bitwise_right_shift)
#undef DL_BOTH_FORMS
Tensor bitwise_not(const Tensor& input);

// The result is bool; a number counts as true unless it is 0.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& input);

// The result is bool. For integers it is false, except that isfinite() is true.
Tensor isnan(const Tensor& input);
Tensor isinf(const Tensor& input);
Tensor isfinite(const Tensor& input);

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // NaN is close to NaN
};
// |a - b| <= atol + rtol |b|, element by element; allclose(): for all elements. Both have one
// dtype; throws kDType otherwise.
Tensor isclose(const Tensor& a, const Tensor& b, CloseOptions options = {});
bool allclose(const Tensor& a, const Tensor& b, CloseOptions options = {});
// True if shapes and all elements are equal; NaN is not equal to NaN. Both have one dtype; throws
// kDType otherwise.
bool equal(const Tensor& a, const Tensor& b);

// `==` compares elements; is_same() compares handles.

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions
#define DL_OPERATOR(sign, name, mirrored)                         \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { \
    return name(a, b);                                            \
  }                                                               \
  inline Tensor operator sign(const Tensor& a, Scalar b) {        \
    return name(a, b);                                            \
  }                                                               \
  inline Tensor operator sign(Scalar a, const Tensor& b) {        \
    return mirrored(b, a);                                        \
  }
DL_OPERATOR(==, eq, eq)
DL_OPERATOR(!=, ne, ne)
DL_OPERATOR(<, lt, gt)
DL_OPERATOR(<=, le, ge)
DL_OPERATOR(>, gt, lt)
DL_OPERATOR(>=, ge, le)
DL_OPERATOR(&, bitwise_and, bitwise_and)
DL_OPERATOR(|, bitwise_or, bitwise_or)
DL_OPERATOR(^, bitwise_xor, bitwise_xor)
#undef DL_OPERATOR
// NOLINTEND(bugprone-macro-parentheses)
inline Tensor operator~(const Tensor& a) {
  return bitwise_not(a);
}

}  // namespace dl
