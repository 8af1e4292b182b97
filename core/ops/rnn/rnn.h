// Recurrent layers in one call of a library.
#pragma once

#include <optional>
#include <span>

#include "core/args/rnn_args.h"
#include "core/tensor/tensor.h"

namespace dl::detail {

// y [rows, directions width], h [layers directions, sequences, width] behind the last steps, and
// an LSTM's c.
struct RnnResult {
  Tensor y, h, c;
};
// Layers as nn/layers/rnn/rnn.h describes them, without dropout, by cuDNN, which may add in another
// order in each run: backends::cudnn::deterministic must be off. None, and the caller composes the
// layers of other operations: on a CPU, in f64, or if cuDNN does not take the case. `weights` as in
// core/kernels/declared/linear.h. Sizes are checked.
std::optional<RnnResult> fused_rnn(RnnArgs args, const Tensor& x, const Tensor& h, const Tensor& c,
                                   std::span<const Tensor> weights);

}  // namespace dl::detail
