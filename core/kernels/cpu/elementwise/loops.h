// The loops behind the element-wise kernels: flat where all operands lie alike, strided otherwise.
// Rows are compiled for few types; other dtypes travel through blocks of a carrier.
#pragma once

#include <span>

#include "core/kernels/cpu/elementwise/rows.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// out = row(inputs...), element by element; inputs are broadcast to the output's shape, and the
// output may be one of them. Inputs have the output's dtype, or one dtype and the output is bool
// where rows give bools; beside an output of float16 or bfloat16 they may have any floating dtype,
// and rows of three operands take bool for any of them.
void run_rows(const Rows& rows, std::span<const Tensor* const> inputs, const Parameters& parameters,
              const Tensor& output);

}  // namespace dl::kernels::cpu
