// Comparisons, and operations on truth values and bits, element by element.
//
// Operands are broadcast and promoted as in arithmetic.h; a number counts as a tensor without
// dimensions. Nothing here has a gradient. Operations on bits take integers and bool, and throw
// kDType for others.
#pragma once

#include "core/tensor/tensor.h"

namespace dl {

// Each of them also with a number on the right.
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
// The bits of a moved b places; by fewer than none, or by as many as there are, leaves 0, or down
// the sign. Throws kDType for two bools.
DL_BOTH_FORMS(bitwise_left_shift)
DL_BOTH_FORMS(bitwise_right_shift)
#undef DL_BOTH_FORMS
Tensor bitwise_not(const Tensor& input);

// The result is bool; a number counts as true unless it is 0.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& input);

// The result is bool; false, and true for isfinite, of integers.
Tensor isnan(const Tensor& input);
Tensor isinf(const Tensor& input);
Tensor isfinite(const Tensor& input);

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // NaN is close to NaN
};
// Whether |a - b| <= atol + rtol |b|, element by element and for all. Both have one dtype; throws
// kDType otherwise.
Tensor isclose(const Tensor& a, const Tensor& b, CloseOptions options = {});
bool allclose(const Tensor& a, const Tensor& b, CloseOptions options = {});
// Whether shapes and all elements are equal; NaN is not. Both have one dtype; throws kDType
// otherwise.
bool equal(const Tensor& a, const Tensor& b);

// `==` compares elements; whether two handles name one array says is_same().
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
