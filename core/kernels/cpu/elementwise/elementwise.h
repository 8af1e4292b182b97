// Element-wise kernels: one for each family of core/elementwise/list.def. They broadcast operands
// to the output's shape. Operands have the output's dtype, which the row accepts; for comparisons
// they have one dtype and the output is bool; a 0-d operand next to float16 or bfloat16 may be
// float32. An output may be one of the operands.
#pragma once

#include "core/elementwise/list.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

void unary(UnaryFn fn, const Tensor& input, const Parameters& parameters, const Tensor& out);
// The gradient of the input, from the gradient of the output and the tensor that the row saves, the
// input or the output. For a row that saves nothing, pass `grad` as `saved`.
void unary_backward(UnaryFn fn, const Tensor& grad, const Tensor& saved,
                    const Parameters& parameters, const Tensor& out);
void binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Parameters& parameters,
            const Tensor& out);
// An operand may also be bool (the condition of `where`).
void ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c,
             const Parameters& parameters, const Tensor& out);

}  // namespace dl::kernels::cpu
