// What the fronts of operations share: checks, results and reduced gradients.
#pragma once

#include <functional>
#include <string_view>

#include "core/autograd/record.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/tensor/factories.h"
#include "core/tensor/tensor.h"

namespace dl {

// Throws kInvalidArgument for an undefined tensor: "add: argument b is undefined".
void check_defined(const Tensor& tensor, std::string_view op, std::string_view argument);
void check_same_device(const Tensor& a, const Tensor& b, std::string_view op);
void check_floating(const Tensor& tensor, std::string_view op);

// An operand as it may be read while `written` is written element by element: itself, or a copy
// without history where a write would reach elements before they are read.
Tensor readable_during_write(const Tensor& operand, const Tensor& written);
// Whether the memory of both may have an element in common.
bool may_overlap(const Tensor& a, const Tensor& b) noexcept;

// Throws unless a result of this shape and dtype may be written into `self`, which it keeps.
void check_writable(const Tensor& self, const Shape& result, DType dtype, std::string_view op);
// The form in place of an operation that has no kernel for it: writes `result(self)`, of self's
// shape, into self. `recorded` is is_recorded(self, other...).
Tensor& write_result(Tensor& self, std::string_view op, bool recorded,
                     const std::function<Tensor(const Tensor&)>& result);

// A view of the whole input.
Tensor alias(const Tensor& input);

// A number as a tensor without dimensions. Throws kInvalidArgument where it does not fit.
Tensor scalar_tensor(Scalar value, DType dtype, std::string_view op, Device device = {});

// A gradient where `mask` (bool, of its shape) is true, elsewhere 0: also where the gradient is
// infinite or NaN, of which a product with 0 would make NaN.
Tensor masked(const Tensor& gradient, const Tensor& mask);

// The gradient of something that was broadcast from `shape`: sums what was repeated.
Tensor sum_to(const Tensor& gradient, const Shape& shape);

}  // namespace dl
