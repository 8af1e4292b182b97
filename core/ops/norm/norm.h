// Normalisation: shifts and scales a tensor to mean 0 and variance 1, then applies weight and bias.
// rms_norm() only scales, to a mean square of 1, and has no bias.
//
// Inputs are floating; float16 and bfloat16 are computed in float32 and rounded once. Weights and
// biases have the input's dtype or float32, and may be undefined. The functions throw kShape,
// kDType or kInvalidArgument if an argument does not fit, and kNotImplemented on CUDA.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor/tensor.h"

namespace dl {

// (x - mean) / sqrt(variance + eps) * weight + bias; mean and variance are over the last dimensions
// (Ba et al. 2016). Returns a contiguous tensor of the input's shape.
//   shape  the sizes of these last dimensions, and the shape of weight and bias
Tensor layer_norm(const Tensor& input, const Shape& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// x / sqrt(mean(x^2) + eps) * weight; the mean is over the last dimensions (Zhang and Sennrich
// 2019). If eps is not given, it is the machine epsilon of the dtype in which the norm is computed,
// as in PyTorch.
Tensor rms_norm(const Tensor& input, const Shape& shape, const Tensor& weight = {},
                std::optional<double> eps = {});

// Like layer_norm(), but the channels are divided into `groups` groups. Mean and variance are over
// the channels of one group and the spatial dimensions (Wu and He 2018).
//   input         [N, C, d...], C a multiple of groups
//   weight, bias  [C]
Tensor group_norm(const Tensor& input, std::int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

struct BatchNormOptions {
  bool training = false;  // use the batch's statistics, and update the running ones
  double momentum = 0.1;  // the weight of this batch in the running statistics
  double eps = 1e-5;
};
// clang-format off
// Normalises each channel over the samples and the spatial dimensions (Ioffe and Szegedy 2015).
//   input                      [N, C] or [N, C, d...]; the result keeps a channels-last format
//   running_mean, running_var  [C]; may be undefined if training
//   weight, bias               [C], or undefined
// clang-format on
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {},
                  const BatchNormOptions& options = {});
// relu(batch_norm(input, ...) + residual), the residual being undefined or of any shape and dtype
// that can be added. On CUDA one pass over the batch, with the same gradients, if the residual has
// the input's shape and dtype; f16 and bf16 are then rounded once.
Tensor batch_norm_relu(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight = {}, const Tensor& bias = {},
                       const BatchNormOptions& options = {}, const Tensor& residual = {});

}  // namespace dl
