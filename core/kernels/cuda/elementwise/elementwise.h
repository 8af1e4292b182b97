// The kernels of core/kernels/cpu/elementwise/elementwise.h. One operand of a binary kernel may be
// a 0-d tensor on the CPU: its value is passed with the launch. A row without a CUDA kernel throws
// kNotImplemented.
#pragma once

#include "core/elementwise/list.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void unary(UnaryFn fn, const Tensor& input, const Parameters& parameters, const Tensor& out);
void unary_backward(UnaryFn fn, const Tensor& grad, const Tensor& saved,
                    const Parameters& parameters, const Tensor& out);
void binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Parameters& parameters,
            const Tensor& out);

}  // namespace dl::kernels::cuda
