// Helpers of op functions: checks, results and reduced gradients.
#pragma once

#include <functional>
#include <string_view>

#include "core/autograd/record.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/tensor/factories.h"
#include "core/tensor/tensor.h"

namespace dl {

// Throws kInvalidArgument for an undefined tensor: "add: b is an undefined tensor".
void check_defined(const Tensor& tensor, std::string_view op, std::string_view argument);
void check_same_device(const Tensor& a, const Tensor& b, std::string_view op);
void check_floating(const Tensor& tensor, std::string_view op);

// The operand to read while `written` is written element by element: the operand itself, or a copy
// without history if a write could overwrite elements before they are read.
Tensor readable_during_write(const Tensor& operand, const Tensor& written);
// True if both may share an element in memory.
bool may_overlap(const Tensor& a, const Tensor& b) noexcept;

// For a result that is to be written into `self`. Throws kShape if the shapes differ, and kDType if
// `self` cannot hold the result's dtype: a float in integers, or a number in bools.
void check_writable(const Tensor& self, const Shape& result, DType dtype, std::string_view op);
// Implements `op_` for an operation without an in-place kernel: computes result(self), which
// must have self's shape, and copies it into self. `recorded` is is_recorded(self, other...).
Tensor& write_result(Tensor& self, std::string_view op, bool recorded,
                     const std::function<Tensor(const Tensor&)>& result);

// A view of the whole input.
Tensor alias(const Tensor& input);

// A number as a 0-d tensor. Throws kInvalidArgument if it does not fit into the dtype.
Tensor scalar_tensor(Scalar value, DType dtype, std::string_view op, Device device = {});

// For each element the gradient if `mask` is true, else 0; `mask` is bool and has the gradient's
// shape. A product with 0 would give NaN for an infinite or NaN gradient. Recorded.
Tensor masked(const Tensor& gradient, const Tensor& mask);

// The gradient of an element-wise row's input, recorded. `seen`: what the row saves; `gradient`
// itself if it saves nothing.
Tensor unary_gradient(UnaryFn fn, const Tensor& gradient, const Tensor& seen,
                      const Parameters& parameters);

// The gradient of an operand that was broadcast from `shape`: sums over the broadcast dimensions.
Tensor sum_to(const Tensor& gradient, const Shape& shape);

}  // namespace dl
