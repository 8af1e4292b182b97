// The loops of the element-wise kernels: flat if all operands have the same layout, else strided.
// Inner loops (rows) exist for five types. Other dtypes are converted, 4 KiB at a time, to one of
// them (the compute type) and back.
#pragma once

#include <span>

#include "core/args/part_work.h"
#include "core/kernels/cpu/elementwise/rows.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// out = row(inputs...), element by element. Inputs are broadcast to the output's shape, and the
// output may be one of them. Inputs have the output's dtype; for rows that give bools they have one
// dtype and the output is bool. If the output is float16 or bfloat16, inputs may have any floating
// dtype. Rows of three operands accept bool for any of them.
void run_rows(const Rows& rows, std::span<const Tensor* const> inputs, const Parameters& parameters,
              const Tensor& output);

// Does the same for a part of the elements. It is empty unless the output is dense, and each input
// has the output's layout or is one element. It holds the operands' addresses, not the tensors.
PartWork rows_in_parts(const Rows& rows, std::span<const Tensor* const> inputs,
                       const Parameters& parameters, const Tensor& output);

// out = condition ? yes : no. The condition is bool, the others have one dtype; inputs are
// broadcast to the output's shape. It moves elements of any dtype without converting them.
void where(const Tensor& condition, const Tensor& yes, const Tensor& no, const Tensor& out);

}  // namespace dl::kernels::cpu
