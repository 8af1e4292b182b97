// As the convolutions of core/kernels/cpu/network.h, by cuDNN on channels-last images; f64,
// images without pixels and what cuDNN has no deterministic algorithm for (the log says so), by a
// plain kernel of our own, as all without backends::cudnn::enabled. f16 and bf16 are summed in f32;
// f32 in f32 or, with backends::cudnn::allow_tf32 (the default), in TF32. Bias and ReLU follow in
// one pass over the result.
//
// The algorithm that cuDNN's heuristic prefers for a shape is kept (with backends::cudnn::benchmark
// the one that was fastest when it was first met, unless that was in a capture); only deterministic
// ones are taken.
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
