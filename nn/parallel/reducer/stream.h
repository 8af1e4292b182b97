// The stream on which a tensor is computed and read.
#pragma once

#include "core/device/cuda/cuda.h"
#include "core/tensor/tensor.h"

namespace dl::nn::parallel {

inline Stream stream_of(const Tensor& tensor) {
  return tensor.is_cuda() ? cuda::current_stream(tensor.device().index) : Stream{};
}

}  // namespace dl::nn::parallel
