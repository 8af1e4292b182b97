// Normalisation: a tensor's numbers moved to mean 0 and variance 1, then scaled and shifted.
//
// Inputs are floating; float16 and bfloat16 are computed in float32 and rounded once. Weights and
// biases have the input's dtype or float32, and may be undefined. Throws kShape, kDType and
// kInvalidArgument. There is no CUDA kernel yet.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor/tensor.h"

namespace dl {

// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions (Ba et al. 2016).
//   shape         those dimensions; weight and bias have it, too
// Returns a tensor of the input's shape, contiguous.
Tensor layer_norm(const Tensor& input, const Shape& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// x / sqrt(mean(x^2) + eps) * weight over the last dimensions (Zhang and Sennrich 2019). Without
// eps: the distance from 1 to the next number of the dtype it is computed in, as in PyTorch.
Tensor rms_norm(const Tensor& input, const Shape& shape, const Tensor& weight = {},
                std::optional<double> eps = {});

// As layer_norm over each of `groups` groups of channels and all places (Wu and He 2018).
//   input         [N, C, d...], C a multiple of groups
//   weight, bias  [C]
Tensor group_norm(const Tensor& input, std::int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

struct BatchNormOptions {
  bool training = false;  // normalise by the batch, and move the running statistics towards it
  double momentum = 0.1;  // the batch's share in the running statistics
  double eps = 1e-5;
};
// Each channel normalised over samples and places (Ioffe and Szegedy 2015).
//   input                      [N, C] or [N, C, d...]; 4 dimensions may be channels-last, and stay
//   so running_mean, running_var  [C]; may be undefined while training weight, bias [C]
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {},
                  const BatchNormOptions& options = {});

}  // namespace dl
