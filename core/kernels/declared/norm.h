// Normalisation, forward and backward.
//
// Inputs are float32, float64, or float16 and bfloat16, which are computed in float32. Weights,
// biases and running statistics have the input's dtype or float32, and may be undefined; statistics
// that are saved for backward are float64 for float64, else float32.
//
// Float32 is summed in float32 within blocks and in float64 across blocks. Rows and channels whose
// squared distances overflow or underflow float32 are computed in float64.
#pragma once

#include "core/args/norm_args.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

// x, y and dx are contiguous. stats [rows, 3] receives each row's mean, 1 / deviation, and the
// rounding error of the mean.
DL_KERNEL(void, row_norm,
          (const RowNormArgs& args, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& y, const Tensor& stats))
// dx, dweight and dbias may be undefined.
DL_KERNEL(void, row_norm_backward,
          (const RowNormArgs& args, const Tensor& dy, const Tensor& x, const Tensor& weight,
           const Tensor& stats, const Tensor& dx, const Tensor& dweight, const Tensor& dbias))

// moments [2, channels] float64 receives each channel's mean, and the sum of squared distances from
// this mean.
DL_KERNEL(void, batch_moments, (const BatchNormArgs& args, const Tensor& x, const Tensor& moments))

// args gives the memory layout of x, y and dx. stats [3, channels] receives each channel's mean,
// 1 / deviation, and the rounding error of the mean. With batch statistics, defined running
// statistics are updated by them, the variance with divisor n - 1. Without batch statistics,
// running_mean and running_var may be float64.
// In the backward pass of a batch that is divided among ranks, all_ranks [2 * channels + 1] float64
// has the sums over ranks of the gradients of bias, then of weight, then the number of values a
// channel. Undefined: the batch is on one rank.
DL_KERNEL(void, batch_norm,
          (const BatchNormArgs& args, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
           const Tensor& stats))
DL_KERNEL(void, batch_norm_backward,
          (const BatchNormArgs& args, const Tensor& dy, const Tensor& x, const Tensor& weight,
           const Tensor& stats, const Tensor& all_ranks, const Tensor& dx, const Tensor& dweight,
           const Tensor& dbias))

// y = relu(batch_norm(x) + residual), with NaN kept. The residual and its gradient lie as y, and
// may be undefined. Backward passes on dy if y > 0, else 0: as the residual's gradient, and
// to batch_norm_backward().
DL_KERNEL(void, batch_norm_relu,
          (const BatchNormArgs& args, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& running_mean, const Tensor& running_var, const Tensor& residual,
           const Tensor& y, const Tensor& stats))
DL_KERNEL(void, batch_norm_relu_backward,
          (const BatchNormArgs& args, const Tensor& dy, const Tensor& y, const Tensor& x,
           const Tensor& weight, const Tensor& stats, const Tensor& dresidual, const Tensor& dx,
           const Tensor& dweight, const Tensor& dbias))

}  // namespace dl::kernels
