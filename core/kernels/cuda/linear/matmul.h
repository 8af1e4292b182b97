// The matrix products of core/kernels/cpu/network.h, by cuBLASLt: f16 and bf16 are summed in f32;
// f32 in f32 or, with backends::cuda::matmul::allow_tf32, in TF32. Bias, activation and their
// gradients are fused if epilogue.h allows it and cuBLASLt has an algorithm for it; otherwise
// separate kernels compute them.
#pragma once

#include "core/args/linear_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c);
bool linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
            const Tensor& kept, const Tensor& y);
void linear_backward_input(const Tensor& dy, const Tensor& weight, Activation activation,
                           const Tensor& seen, const Tensor& mask, const Tensor& dx);
void linear_backward_weight(const Tensor& dy, const Tensor& x, bool accumulate,
                            const Tensor& dweight, bool accumulate_bias, const Tensor& dbias);

}  // namespace dl::kernels::cuda
