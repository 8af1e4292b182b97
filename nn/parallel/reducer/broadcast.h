// Copies tensors from one rank to all, on the streams on which they are computed. One thread.
#pragma once

#include <span>

#include "collectives/api/process_group.h"
#include "core/device/cuda/cuda.h"
#include "core/tensor/tensor.h"

namespace dl::nn::parallel {

// The stream on which a tensor is computed and read.
inline Stream stream_of(const Tensor& tensor) {
  return tensor.is_cuda() ? cuda::current_stream(tensor.device().index) : Stream{};
}

// Collective: every rank calls it with tensors of the same shapes and dtypes in the same order.
// Large tensors are sent from their own memory, small ones packed together. Blocks until all are
// copied. Throws the group's error.
void broadcast_tensors(collectives::ProcessGroup& group, std::span<const Tensor> tensors,
                       int root = 0);

}  // namespace dl::nn::parallel
