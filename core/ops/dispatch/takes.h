// Which dtypes an element-wise operation takes: the rules of core/elementwise/list.h.
#pragma once

#include <string_view>

#include "core/elementwise/list.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/tensor/tensor.h"

namespace dl {

// The dtype that an operation computes operands of `dtype` in. Throws kDType for one that it does
// not take.
DType computed_dtype(DType dtype, Takes takes, std::string_view op);

// The operand in that dtype.
Tensor taken(const Tensor& operand, Takes takes, std::string_view op);

// In place the result must be of the tensor's own dtype: throws kDType otherwise.
void check_taken_in_place(const Tensor& self, Takes takes, std::string_view op);

}  // namespace dl
