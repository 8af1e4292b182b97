// As the products of core/kernels/cpu/network.h, by cuBLASLt: f16 and bf16 are summed in f32, f32
// in f32 or, with backends::cuda::matmul::allow_tf32, in TF32. Bias and ReLU are added in the
// product's last pass.
//
// What cuBLASLt's heuristic chose for a shape is kept, keyed by plain data: the same algorithm, and
// so the same bits, for every call of a shape.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c);
void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, const Tensor& y);
void linear_backward_bias(const Tensor& dy, bool accumulate, const Tensor& dbias);

}  // namespace dl::kernels::cuda
