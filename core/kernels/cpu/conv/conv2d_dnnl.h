// f32 and bfloat16 convolution in oneDNN; shapes and layouts as in core/kernels/cpu/conv/conv2d.h.
// Throws kInternal with oneDNN's message and the shape if oneDNN fails.
//
// It never fuses a ReLU: oneDNN's turns NaN into 0, which would hide that training diverges.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/conv/conv2d.h"

namespace dl::kernels {

enum class DnnlConv2d : std::uint8_t {
  kDone,
  // oneDNN multiplied the padding's zeros (its GEMM does): 0 times a NaN or an infinity is NaN, in
  // results to which the padding contributes nothing by the definition.
  kMultipliedPadding,
  // Nothing was computed, because oneDNN has no fast and exact kernel for this shape in bfloat16.
  kNone,
};

// T is float or BFloat16. Sums of bfloat16 products are float32, rounded once.
template <typename T>
DnnlConv2d dnnl_conv2d_forward(const Conv2dShape& s, const T* x, const T* weight, const T* bias,
                               T* y);
template <typename T>
DnnlConv2d dnnl_conv2d_backward_data(const Conv2dShape& s, const T* dy, const T* weight, T* dx);
template <typename T>
DnnlConv2d dnnl_conv2d_backward_weights(const Conv2dShape& s, const T* x, const T* dy, T* dweight,
                                        T* dbias);

}  // namespace dl::kernels
