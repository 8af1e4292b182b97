// f32 convolution in oneDNN; shapes and layouts as in core/kernels/cpu/conv/conv2d.h. Throws
// kInternal with oneDNN's message and the shape if oneDNN fails.
//
// It never fuses a ReLU: oneDNN's turns NaN into 0, which would hide that training diverges.
//
// Returns true if oneDNN multiplied the padding's zeros (its GEMM does): 0 times a NaN or an
// infinity is NaN, in results to which the padding contributes nothing by the definition.
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
