// Convolution on tensors. The op function has checked shapes and dtypes: floating ones; float16 and
// bfloat16 are computed through float32.
#pragma once

#include "core/args/window_args.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

// x, y, dx and dy are channels-last, weight and dweight row-major; bias and dbias may be undefined.
DL_KERNEL(void, conv2d,
          (const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dArgs& args,
           const Tensor& y))
DL_KERNEL(void, conv2d_backward_data,
          (const Tensor& dy, const Tensor& weight, const Conv2dArgs& args, const Tensor& dx))
DL_KERNEL(void, conv2d_backward_weight,
          (const Tensor& x, const Tensor& dy, const Conv2dArgs& args, const Tensor& dweight,
           const Tensor& dbias))

}  // namespace dl::kernels
