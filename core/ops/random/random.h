// Dropout from a generator's Philox stream: the same numbers on every device. The functions of
// core/random/tensor_random.h, and Tensor::normal_() and similar methods, use this stream on CUDA
// devices only; on the CPU they draw PyTorch's numbers.
#pragma once

#include "core/random/generator.h"
#include "core/tensor/tensor.h"

namespace dl {

// Sets each element to zero with probability p and divides the others by 1 - p.
//   input   floating, any strides
// Returns a row-major tensor of the input's shape and dtype. Takes one word of the stream for each
// element, of any dtype. Backward draws the same numbers again, so no mask is kept. Throws kDType,
// and kInvalidArgument unless p is in [0, 1); on a CUDA device also in a capture, whose replays
// would all draw the same.
Tensor philox_dropout(const Tensor& input, double p, Generator& generator = default_generator());

}  // namespace dl
