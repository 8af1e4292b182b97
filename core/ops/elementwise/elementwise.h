// Functions of one element: relu(x), relu_(x), exp(x) and so on, one for each row of DL_UNARY in
// core/elementwise/list.def. docs/reference/operations.md lists them.
//
// They accept tensors of any strides and keep shape, dtype and layout. A function's row lists the
// dtypes that it accepts; others throw kDType. name_(x) writes the result into x, raises its
// version by one, and throws kInvalidArgument for a leaf that requires gradients.
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

}  // namespace dl
