// The dtypes that an element-wise operation accepts: the rules of core/elementwise/list.h.
#pragma once

#include <string_view>

#include "core/elementwise/list.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/tensor/tensor.h"

namespace dl {

// The dtype in which an operation computes operands of `dtype`. Throws kDType if the operation does
// not accept it.
DType computed_dtype(DType dtype, Takes takes, std::string_view op);

// The operand converted to that dtype.
Tensor promoted(const Tensor& operand, Takes takes, std::string_view op);

// Throws kDType unless the computed dtype is self's own, as in-place operations need.
void check_taken_in_place(const Tensor& self, Takes takes, std::string_view op);

}  // namespace dl
