// 2-d convolution by its definition, one thread for each result: for f64, and for shapes that cuDNN
// does not support. Images are channels-last, weights row-major [c_out, c_in / groups, kh, kw];
// half types are summed in f32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

struct ConvShape {
  std::int32_t n = 0, c_in = 0, h = 0, w = 0;
  std::int32_t c_out = 0, kh = 0, kw = 0, out_h = 0, out_w = 0;
  std::int32_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  std::int32_t groups = 1;
};

void conv2d_direct_launch(DType dtype, const ConvShape& s, const void* x, const void* weight,
                          void* y, cudaStream_t stream);
void conv2d_direct_data_launch(DType dtype, const ConvShape& s, const void* dy, const void* weight,
                               void* dx, cudaStream_t stream);
void conv2d_direct_weight_launch(DType dtype, const ConvShape& s, const void* x, const void* dy,
                                 void* dweight, cudaStream_t stream);

}  // namespace dl::kernels::cuda
