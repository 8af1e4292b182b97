// Gradient clipping between backward() and the optimizer's step(), as in torch.nn.utils.
//
//     loss.backward();
//     nn::utils::clip_grad_norm_(model.parameters(), 1.0);
//     opt.step();
//
// Parameters without a gradient are ignored, and one that is listed twice counts once. With a
// GradScaler, call unscale_() first. All gradients must be on one device, whose kernels take as
// many of them as fit into a launch. On CUDA these functions wait for the device only if
// error_if_nonfinite is set; otherwise dl::compile captures them. They throw kInvalidArgument for a
// bad number or several devices, and the first cause if DDP could not average these gradients.
#pragma once

#include <vector>

#include "core/tensor/tensor.h"

namespace dl::nn::utils {

struct ClipGradNormOptions {
  double norm_type = 2;             // more than 0; infinity: the largest absolute value
  bool error_if_nonfinite = false;  // false: all gradients become NaN if one is NaN
};

// Multiplies all gradients by max_norm / (norm + 1e-6) if that is less than 1, norm being that of
// all gradients as one vector. Returns the norm before clipping, 0-d; 0 if there are no gradients.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       ClipGradNormOptions options = {});

// Clamps every element to [-clip_value, clip_value]; NaN stays NaN.
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace dl::nn::utils
