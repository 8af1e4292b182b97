// Functions of one and of two elements that are rows of core/elementwise/list.def: relu(x),
// relu_(x), exp(x), hypot(a, b) and so on. docs/reference/operations.md lists them.
//
// They accept tensors of any strides. A function's row lists the dtypes that it accepts; others
// throw kDType. Functions of one element keep shape, dtype and layout. name_(x) writes the result
// into x, raises its version by one, and throws kInvalidArgument for a leaf that requires
// gradients. The operands of functions of two elements are broadcast and promoted as in
// arithmetic.h.
#pragma once

#include "core/elementwise/list.h"
#include "core/tensor/tensor.h"

namespace dl {

// Applies the row's function, with its scalar arguments.
Tensor unary(kernels::UnaryFn fn, const Tensor& input, const kernels::Parameters& parameters = {});
Tensor& unary_(kernels::UnaryFn fn, Tensor& input, const kernels::Parameters& parameters = {});

#define DL_UNARY(enumerator, name, ...)                 \
  inline Tensor name(const Tensor& input) {             \
    return unary(kernels::UnaryFn::enumerator, input);  \
  }                                                     \
  inline Tensor& name##_(Tensor& input) {               \
    return unary_(kernels::UnaryFn::enumerator, input); \
  }
#include "core/elementwise/list.def"

// Applies the row's function of two elements; a number counts as a 0-d tensor.
Tensor binary(kernels::BinaryFn fn, const Tensor& a, const Tensor& b);
Tensor binary(kernels::BinaryFn fn, const Tensor& a, Scalar b);
Tensor binary(kernels::BinaryFn fn, Scalar a, const Tensor& b);

#define DL_BINARY_OF_TENSORS(enumerator, name, ...)      \
  inline Tensor name(const Tensor& a, const Tensor& b) { \
    return binary(kernels::BinaryFn::enumerator, a, b);  \
  }
#define DL_BINARY_OF_NUMBERS(enumerator, name, ...)     \
  DL_BINARY_OF_TENSORS(enumerator, name, __VA_ARGS__)   \
  inline Tensor name(const Tensor& a, Scalar b) {       \
    return binary(kernels::BinaryFn::enumerator, a, b); \
  }                                                     \
  inline Tensor name(Scalar a, const Tensor& b) {       \
    return binary(kernels::BinaryFn::enumerator, a, b); \
  }
#include "core/elementwise/list.def"

}  // namespace dl
