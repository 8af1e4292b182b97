// As core/kernels/cpu/elementwise.h. One operand of a binary kernel may be a tensor without
// dimensions on the CPU: its value travels with the launch.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void add(const Tensor& a, const Tensor& b, const Tensor& out);
void add_scaled(const Tensor& a, const Tensor& b, Scalar alpha, const Tensor& out);
void sub(const Tensor& a, const Tensor& b, const Tensor& out);
void mul(const Tensor& a, const Tensor& b, const Tensor& out);
void div(const Tensor& a, const Tensor& b, const Tensor& out);
void minimum(const Tensor& a, const Tensor& b, const Tensor& out);
void maximum(const Tensor& a, const Tensor& b, const Tensor& out);

void eq(const Tensor& a, const Tensor& b, const Tensor& out);
void ne(const Tensor& a, const Tensor& b, const Tensor& out);
void lt(const Tensor& a, const Tensor& b, const Tensor& out);
void le(const Tensor& a, const Tensor& b, const Tensor& out);

void neg(const Tensor& input, const Tensor& out);
void relu(const Tensor& input, const Tensor& out);
void exp(const Tensor& input, const Tensor& out);
void log(const Tensor& input, const Tensor& out);
void sqrt(const Tensor& input, const Tensor& out);
void tanh(const Tensor& input, const Tensor& out);
void sigmoid(const Tensor& input, const Tensor& out);
void pow(const Tensor& base, double exponent, const Tensor& out);
void gelu(const Tensor& input, bool tanh_form, const Tensor& out);

void relu_backward(const Tensor& grad, const Tensor& output, const Tensor& out);
void tanh_backward(const Tensor& grad, const Tensor& output, const Tensor& out);
void sigmoid_backward(const Tensor& grad, const Tensor& output, const Tensor& out);
void gelu_backward(const Tensor& grad, const Tensor& input, bool tanh_form, const Tensor& out);

}  // namespace dl::kernels::cuda
