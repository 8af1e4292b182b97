// f32 convolution in oneDNN; shapes and layouts as in core/kernels/cpu/conv/conv2d.h. Throws
// kInternal with oneDNN's words and the shape where oneDNN refuses.
//
// Without ReLU: oneDNN's own makes 0 of NaN, fused or not, and would hide that training diverges.
//
// Returns true if oneDNN multiplied the padding's zeros (its GEMM does): NaN or an infinity in the
// other operand then makes NaN of results in which it takes no part.
#pragma once

#include "core/kernels/cpu/conv/conv2d.h"

namespace dl::kernels {

bool dnnl_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight,
                         const float* bias, float* y);
void dnnl_conv2d_backward_data(const Conv2dShape& s, const float* dy, const float* weight,
                               float* dx);
bool dnnl_conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy,
                                  float* dweight, float* dbias);

}  // namespace dl::kernels
