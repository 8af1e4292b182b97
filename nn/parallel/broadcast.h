// Copies tensors from one rank to all.
#pragma once

#include <span>

#include "collectives/process_group.h"
#include "core/tensor/tensor.h"

namespace dl::nn::parallel {

// Collective: every rank calls it with tensors of the same shapes and dtypes in the same order.
// Large tensors are sent from their own memory, small ones packed together. Waits; throws the
// group's error.
void broadcast_tensors(collectives::ProcessGroup& group, std::span<const Tensor> tensors,
                       int root = 0);

}  // namespace dl::nn::parallel
