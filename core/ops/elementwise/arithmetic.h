// Arithmetic of tensors, element by element.
//
// Operands are broadcast and promoted by PyTorch's rules (core/tensor/scalar/promote.h); a number
// counts as a 0-d tensor. The result has the memory layout of the first operand with the result's
// shape. Throws kShape for shapes that do not broadcast, kDType for bool operands and for dtypes
// without a common dtype, kInvalidArgument for different devices. A number out of range of the
// tensor's integer dtype wraps around, as results do (docs/reference/dtypes.md).
#pragma once

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/logic/logic.h"
#include "core/tensor/tensor.h"

namespace dl {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
// True division: integers give float32.
Tensor div(const Tensor& a, const Tensor& b);
// The result is NaN if an operand is. The gradient goes to the operand that is the result, half to
// each if both are equal, and the whole gradient to both if one is NaN.
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);

Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, Scalar b);
Tensor mul(const Tensor& a, Scalar b);
Tensor div(const Tensor& a, Scalar b);

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return sub(a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return mul(a, b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return div(a, b);
}
inline Tensor operator+(const Tensor& a, Scalar b) {
  return add(a, b);
}
inline Tensor operator-(const Tensor& a, Scalar b) {
  return sub(a, b);
}
inline Tensor operator*(const Tensor& a, Scalar b) {
  return mul(a, b);
}
inline Tensor operator/(const Tensor& a, Scalar b) {
  return div(a, b);
}
inline Tensor operator+(Scalar a, const Tensor& b) {
  return add(b, a);
}
inline Tensor operator*(Scalar a, const Tensor& b) {
  return mul(b, a);
}
Tensor operator-(Scalar a, const Tensor& b);
Tensor operator/(Scalar a, const Tensor& b);
inline Tensor operator-(const Tensor& a) {
  return neg(a);
}

}  // namespace dl
