// Max pooling on plain channels-last memory, as in core/kernels/cpu/pool/max_pool2d.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/kernels/fast_divisor.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

struct PoolArgs {
  DType dtype = DType::kF32;
  std::int32_t c = 0, h = 0, w = 0, out_h = 0, out_w = 0;
  std::int32_t kh = 1, kw = 1, stride_h = 1, stride_w = 1;
  std::int32_t pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  bool relu = false;
  std::uint32_t in_count = 0;   // elements of x and dx
  std::uint32_t out_count = 0;  // of y, dy and winner
  FastDivisor by_c, by_w, by_h, by_out_w, by_out_h;
};

void max_pool2d_launch(const PoolArgs& args, const void* x, void* y, std::uint16_t* winner,
                       cudaStream_t stream);
void max_pool2d_backward_launch(const PoolArgs& args, const void* dy, const std::uint16_t* winner,
                                void* dx, cudaStream_t stream);

}  // namespace dl::kernels::cuda
