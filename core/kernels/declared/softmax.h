// Softmax and log-softmax along one dimension of contiguous tensors, and attention. float16 and
// bfloat16 are computed in float32. The largest element is subtracted first, so that no exponential
// overflows.
#pragma once

#include "core/args/linear_args.h"
#include "core/kernels/kernel.h"
#include "core/random/philox.h"

namespace dl::kernels {

// out[i] = e^input[i] / sum_j e^input[j]
DL_KERNEL(void, softmax, (const Tensor& input, std::int64_t dim, const Tensor& out))
// out[i] = input[i] - log(sum_j e^input[j])
DL_KERNEL(void, log_softmax, (const Tensor& input, std::int64_t dim, const Tensor& out))
// The gradient of the input, from the gradient of the output and the output:
// out[i] = output[i] (grad[i] - sum_j grad[j] output[j])
DL_KERNEL(void, softmax_backward,
          (const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out))
// out[i] = grad[i] - e^output[i] sum_j grad[j]
DL_KERNEL(void, log_softmax_backward,
          (const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out))

// Attention in one kernel, which keeps no matrix of scores in memory: query [N, heads, L, E], key
// and value [N, heads, S, E], of f16, bf16 or f32; the elements of a row are neighbours, other
// strides are arbitrary. Dropout keeps element i of the shares [N, heads, L, S] by word i of the
// stream, as philox_dropout does.
//
// out = dropout(softmax(scale query key^T)) value. `stats` [N, heads, L] in f32 gets the logarithm
// of the sum of each row's e^score, for the gradient.
DL_KERNEL(void, fused_attention,
          (const Tensor& query, const Tensor& key, const Tensor& value, const AttentionArgs& args,
           const random::PhiloxSeed& seed, const Tensor& out, const Tensor& stats))
// The gradients of query, key and value, from that of `out`.
DL_KERNEL(void, fused_attention_backward,
          (const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
           const Tensor& out, const Tensor& stats, const AttentionArgs& args,
           const random::PhiloxSeed& seed, const Tensor& dquery, const Tensor& dkey,
           const Tensor& dvalue))

}  // namespace dl::kernels
