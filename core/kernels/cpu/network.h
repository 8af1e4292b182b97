// Kernels of convolution, pooling, linear layers and losses on tensors: they select the element
// type and call the kernels on plain memory. The op function has checked shapes and dtypes. f32 and
// f64 are computed directly, f16 and bf16 through f32; other dtypes throw kDType.
#pragma once

#include "core/args/linear_args.h"
#include "core/args/window_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// x, y, dx and dy are channels-last, weight and dweight row-major; bias and dbias may be undefined.
void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dArgs& args,
            const Tensor& y);
void conv2d_backward_data(const Tensor& dy, const Tensor& weight, const Conv2dArgs& args,
                          const Tensor& dx);
void conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Conv2dArgs& args,
                            const Tensor& dweight, const Tensor& dbias);

// All channels-last; winner is u16.
void max_pool2d(const Tensor& x, const MaxPool2dArgs& args, const Tensor& y, const Tensor& winner);
void max_pool2d_backward(const Tensor& dy, const Tensor& winner, const MaxPool2dArgs& args,
                         const Tensor& dx);

// c = a b, or c += a b. Two dimensions each; of a, b and c one dimension has stride 1 (c: the
// last). Floating dtypes and int64.
void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c);
// c[i] = a[i] b[i]: a batch of matrices with any stride between them.
void matmul_batch(const Tensor& a, const Tensor& b, const Tensor& c);
// y[n, out] = activation(x[n, in] weight[out, in]^T + bias). Row-major; bias may be undefined.
//
// `kept`, if defined, is for backward: with kGeluTanh the input of GELU, with y's shape and dtype;
// with kRelu a mask, uint8 [n, relu_mask_bytes(out)], in a device-specific format. Returns true if
// it was written; kGeluTanh always writes it.
bool linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
            const Tensor& kept, const Tensor& y);
// dx[n, in] = dy[n, out] weight[out, in], times activation'(X) of the activation that made x.
// `seen` is x for kRelu and GELU's input for kGeluTanh; `mask` is the mask that linear() kept for a
// ReLU, or undefined.
void linear_backward_input(const Tensor& dy, const Tensor& weight, Activation activation,
                           const Tensor& seen, const Tensor& mask, const Tensor& dx);
// dweight[out, in] = (or +=) dy[n, out]^T x[n, in], and dbias[out] = (or +=) the column sums of dy.
// Either may be undefined.
void linear_backward_weight(const Tensor& dy, const Tensor& x, bool accumulate,
                            const Tensor& dweight, bool accumulate_bias, const Tensor& dbias);

// logits [n, classes] row-major, target [n] int64; loss 0-d and row_sums [n, 2] (see loss.h) of
// logits' dtype; counted, 0-d int64, receives the number of rows that count.
// Returns the first row with a target out of range, or -1. An asynchronous device always returns
// -1, and reports such a row when a thread waits for it.
std::int64_t cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                           const Tensor& row_sums, const Tensor& counted);
// `grad` is the 0-d gradient of the loss.
void cross_entropy_backward(const Tensor& grad, const Tensor& logits, const Tensor& target,
                            const Tensor& row_sums, const Tensor& counted, const Tensor& dlogits);

// input and target of one shape, row-major.
void mse_loss(const Tensor& input, const Tensor& target, const Tensor& loss);
// d = sign * 2 / n * grad * (input - target)
void mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, double sign,
                       const Tensor& d);

}  // namespace dl::kernels::cpu
