// Matrix products, linear and recurrent layers. The op function has checked shapes and dtypes;
// float16 and bfloat16 are computed through float32, or summed in it.
#pragma once

#include <span>

#include "core/args/linear_args.h"
#include "core/args/rnn_args.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

// c = a b, or c += a b, for matrices of a floating dtype or int64. One dimension of a and of b has
// stride 1, and the last one of c.
DL_KERNEL(void, matmul, (const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c))
// c[i] = a[i] b[i]: a batch of matrices with any stride between them.
DL_KERNEL(void, matmul_batch, (const Tensor& a, const Tensor& b, const Tensor& c))
// y[n, out] = activation(x[n, in] weight[out, in]^T + bias). Row-major; bias may be undefined.
//
// `kept`, if defined, is for backward: with kGeluTanh the input of GELU, with y's shape and dtype;
// with kRelu a mask, uint8 [n, relu_mask_row_bytes(out)], in a device-specific format. Returns true
// if it was written; kGeluTanh always writes it.
DL_KERNEL(bool, linear,
          (const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
           const Tensor& kept, const Tensor& y))
// dx[n, in] = dy[n, out] weight[out, in], times activation'(X) of the activation that made x.
// `seen` is x for kRelu and GELU's input for kGeluTanh; `mask` is the mask that linear() kept for a
// ReLU, or undefined.
DL_KERNEL(void, linear_backward_input,
          (const Tensor& dy, const Tensor& weight, Activation activation, const Tensor& seen,
           const Tensor& mask, const Tensor& dx))
// dweight[out, in] = (or +=) dy[n, out]^T x[n, in], and dbias[out] = (or +=) the column sums of dy.
// Either may be undefined.
DL_KERNEL(void, linear_backward_weight,
          (const Tensor& dy, const Tensor& x, bool accumulate, const Tensor& dweight,
           bool accumulate_bias, const Tensor& dbias))

// Recurrent layers over packed sequences, all in one call.
//
//   x, y    [rows, inputs] and [rows, directions width]
//   h, hy   [layers directions, sequences, width], at the begin and behind the last step
//   c, cy   likewise of `hidden`, of an LSTM; else undefined
//   weights for each layer and direction: of the input, of the hidden state, their two biases if
//           there are any, the projection if there is one
//
// All are contiguous, and f32, f16 or bf16.

// The bytes that rnn() needs in `kept`; 0 if it does not take the case.
DL_KERNEL(std::int64_t, rnn_space, (const RnnArgs& args, const Tensor& x))
DL_KERNEL(void, rnn,
          (const RnnArgs& args, const Tensor& x, const Tensor& h, const Tensor& c,
           std::span<const Tensor> weights, const Tensor& kept, const Tensor& y, const Tensor& hy,
           const Tensor& cy))
// The gradients of hy and cy may be undefined, then they are 0. dweights lie as weights, or
// are none. `kept` is used up.
DL_KERNEL(void, rnn_backward,
          (const RnnArgs& args, const Tensor& kept, const Tensor& x, const Tensor& h,
           const Tensor& c, const Tensor& y, const Tensor& dy, const Tensor& dhy, const Tensor& dcy,
           std::span<const Tensor> dweights, const Tensor& dx, const Tensor& dh, const Tensor& dc))

}  // namespace dl::kernels
