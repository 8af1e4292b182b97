// The convolutions of core/kernels/cpu/network.h, by cuDNN on channels-last images. dlrun's own
// plain kernel computes f64, images without pixels, shapes for which cuDNN has no deterministic
// algorithm (the log says so), and all convolutions if backends::cudnn::enabled is false. f16 and
// bf16 are summed in f32; f32 in f32 or, with backends::cudnn::allow_tf32 (the default), in TF32.
// Bias and ReLU are one more pass over the result.
//
// The algorithm for each shape is cached: the one that cuDNN's heuristic prefers, or with
// backends::cudnn::benchmark the one that was fastest at the first call (unless that was in a
// capture). Only deterministic algorithms are used.
#pragma once

#include "core/args/window_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dArgs& args,
            const Tensor& y);
void conv2d_backward_data(const Tensor& dy, const Tensor& weight, const Conv2dArgs& args,
                          const Tensor& dx);
void conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Conv2dArgs& args,
                            const Tensor& dweight, const Tensor& dbias);

}  // namespace dl::kernels::cuda
