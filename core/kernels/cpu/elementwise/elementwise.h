// Element-wise kernels: one for each family of core/elementwise/list.def. Operands are broadcast to
// the output's shape here; they have the output's dtype (comparisons: one dtype, and a bool output;
// beside float16 and bfloat16 a number may be float32), which is one that the row takes. An output
// may be one of the operands.
#pragma once

#include "core/elementwise/list.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

void unary(UnaryFn fn, const Tensor& input, const Parameters& parameters, const Tensor& out);
// The gradient of the input, from that of the output and what the row saves: the input or the
// output. A row that saves nothing gets `grad` twice.
void unary_backward(UnaryFn fn, const Tensor& grad, const Tensor& saved,
                    const Parameters& parameters, const Tensor& out);
void binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Parameters& parameters,
            const Tensor& out);
// An operand may also be bool (the condition of where).
void ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c,
             const Parameters& parameters, const Tensor& out);

}  // namespace dl::kernels::cpu
