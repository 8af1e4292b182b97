// 2-d convolution in f64, by its definition: for comparing numbers, as on the CPU. Images are
// channels-last, weights row-major [c_out, c_in / groups, kh, kw].
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dl::kernels::cuda {

struct ConvShape {
  std::int32_t n = 0, c_in = 0, h = 0, w = 0;
  std::int32_t c_out = 0, kh = 0, kw = 0, out_h = 0, out_w = 0;
  std::int32_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  std::int32_t groups = 1;
};

void conv2d_f64_launch(const ConvShape& s, const double* x, const double* weight, double* y,
                       cudaStream_t stream);
void conv2d_f64_data_launch(const ConvShape& s, const double* dy, const double* weight, double* dx,
                            cudaStream_t stream);
void conv2d_f64_weight_launch(const ConvShape& s, const double* x, const double* dy,
                              double* dweight, cudaStream_t stream);

}  // namespace dl::kernels::cuda
