// Attention in one kernel on a GPU, without a matrix of scores in memory.
#pragma once

#include "core/args/linear_args.h"
#include "core/tensor/tensor.h"

namespace dl::detail {

// True if fused_attention() takes these tensors, which have one dtype and fit each other: on one
// GPU, of four dimensions, query and value equally wide, f32 up to 64 wide unless TF32 may multiply
// it, f16 and bf16 up to 128. Few queries leave most of the kernel idle, so there are at least 8.
// Composed operations compute the rest, and all if backends::cuda::flash_sdp_enabled is off.
bool takes_fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                           double dropout_p);

// dropout(softmax(scale query key^T)) value, with the draws of philox_dropout() and the default
// generator; the result has the query's memory order. Backward computes the shares again. Autocast
// casts as for a product.
Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                       const AttentionArgs& args);

}  // namespace dl::detail
