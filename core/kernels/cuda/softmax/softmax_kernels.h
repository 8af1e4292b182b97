// Softmax and cross entropy on plain memory. Half types are computed in f32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/runtime/fault.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Lines of `size` elements that are `step` apart; line l begins at (l / step) * size * step + l %
// step.
struct SoftmaxArgs {
  DType dtype = DType::kF32;
  bool logarithm = false;
  std::int64_t lines_count = 0;
  std::int64_t size = 0;
  std::int64_t step = 1;
  Lines lines{};
};
void softmax_launch(const SoftmaxArgs& args, const void* in, void* out, cudaStream_t stream);
void softmax_backward_launch(const SoftmaxArgs& args, const void* grad, const void* output,
                             void* out, cudaStream_t stream);

struct CrossEntropyArgs {
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  const void* logits = nullptr;
  const std::int64_t* target = nullptr;
  void* row_sums = nullptr;
  std::int64_t* counted = nullptr;
  std::int64_t ignore_index = 0;
};
// Writes the loss to the element at `loss`; a target that is not a class is reported, and its loss
// is NaN.
void cross_entropy_launch(const CrossEntropyArgs& args, void* loss, dl::cuda::FaultPlace fault,
                          cudaStream_t stream);
// `grad`: the gradient of the loss, one element.
void cross_entropy_backward_launch(const CrossEntropyArgs& args, const void* grad, void* dlogits,
                                   cudaStream_t stream);

// d = sign * 2 / count * grad * (x - y)
void mse_backward_launch(DType dtype, const void* grad, const void* x, const void* y, double sign,
                         std::int64_t count, void* d, cudaStream_t stream);

}  // namespace dl::kernels::cuda
