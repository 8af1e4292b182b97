// Attention by cuDNN, in f16 and bf16 without dropout, planned once for each shape.
#pragma once

#include "core/kernels/cuda/attention/attention_kernels.h"
#include "core/kernels/cuda/cudnn/graph.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {

// Attention as graphs of cuDNN. Its fused kernels take a graph only if it has their operations in
// their order, which is that of cuDNN's own front end.
//
// In memory: query, key, value, out and stats.
dnn::Graph attention_graph(const AttentionShape& shape, const HeadRows& query, const HeadRows& key,
                           const HeadRows& value, const HeadRows& out);
// In memory: grad, query, key, value, out, stats, products, the sum of query's gradient (f32,
// row-major, 0 before), and the gradients of value, key and query.
dnn::Graph attention_backward_graph(const AttentionShape& shape, const AttentionGradients& tensors);

// As attention_launch() and attention_backward_launch(). False if cuDNN does not take the case, or
// may not: a new shape takes it a second, so backends::cudnn::benchmark must be on; its gradient
// adds in another order in each run, so backends::cudnn::deterministic must be off.
bool cudnn_attention(const AttentionShape& shape, const HeadRows& query, const HeadRows& key,
                     const HeadRows& value, const HeadRows& out, float* stats,
                     const Launch& launch);
bool cudnn_attention_backward(const AttentionShape& shape, const AttentionGradients& tensors,
                              const Launch& launch);

}  // namespace dl::kernels::cuda
