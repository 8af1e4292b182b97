// Element-wise kernels. Operands are broadcast to the output's shape here; they have the output's
// dtype (comparisons: one dtype, and a bool output; add, sub, mul and div of float16 and bfloat16:
// a number may be float32). An output may be one of the operands.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

void add(const Tensor& a, const Tensor& b, const Tensor& out);
// a + alpha * b; alpha is taken in the type of the arithmetic.
void add_scaled(const Tensor& a, const Tensor& b, Scalar alpha, const Tensor& out);
void sub(const Tensor& a, const Tensor& b, const Tensor& out);
void mul(const Tensor& a, const Tensor& b, const Tensor& out);
void div(const Tensor& a, const Tensor& b, const Tensor& out);  // floating
void minimum(const Tensor& a, const Tensor& b, const Tensor& out);
void maximum(const Tensor& a, const Tensor& b, const Tensor& out);

void eq(const Tensor& a, const Tensor& b, const Tensor& out);
void ne(const Tensor& a, const Tensor& b, const Tensor& out);
void lt(const Tensor& a, const Tensor& b, const Tensor& out);
void le(const Tensor& a, const Tensor& b, const Tensor& out);

void neg(const Tensor& input, const Tensor& out);
void relu(const Tensor& input, const Tensor& out);
void exp(const Tensor& input, const Tensor& out);  // this and those below: floating
void log(const Tensor& input, const Tensor& out);
void sqrt(const Tensor& input, const Tensor& out);
void tanh(const Tensor& input, const Tensor& out);
void sigmoid(const Tensor& input, const Tensor& out);
void pow(const Tensor& base, double exponent, const Tensor& out);
void gelu(const Tensor& input, bool tanh_form, const Tensor& out);

// From the gradient of the output and the output itself.
void relu_backward(const Tensor& grad, const Tensor& output, const Tensor& out);
void tanh_backward(const Tensor& grad, const Tensor& output, const Tensor& out);
void sigmoid_backward(const Tensor& grad, const Tensor& output, const Tensor& out);
// From the gradient of the output and the input.
void gelu_backward(const Tensor& grad, const Tensor& input, bool tanh_form, const Tensor& out);

}  // namespace dl::kernels::cpu
