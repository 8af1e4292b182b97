// Attention (Vaswani et al. 2017), composed of matrix products and softmax.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "nn/layers/linear.h"
#include "nn/module/module.h"

namespace dl::nn {

struct AttentionOptions {
  Tensor attn_mask{};    // broadcast to [..., L, S]: bool, true: the key is used; or numbers to add
  double dropout_p = 0;  // dropout of the attention weights
  bool is_causal = false;         // query i uses the keys 0 to i
  std::optional<double> scale{};  // default: 1 / sqrt(E)
};

namespace functional {
// softmax(query key^T scale + mask) value
//   query  [..., L, E]
//   key    [..., S, E]
//   value  [..., S, V]
// Returns [..., L, V]. A query whose scores are all -infinity (all keys masked) gives 0 and has no
// gradient. Throws kShape, kDType, kInvalidArgument.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});
}  // namespace functional

struct MultiheadAttentionOptions {
  double dropout = 0;
  bool bias = true;
  bool batch_first = false;  // [N, L, E], else [L, N, E]
  DType dtype = DType::kF32;
};

struct MultiheadAttentionMasks {
  Tensor key_padding_mask{};  // [N, S] or [S] bool, true: ignore the key
  Tensor attn_mask{};         // [L, S] or [N heads, L, S]: bool, true: ignore; or numbers to add
  bool need_weights = true;
  bool average_attn_weights = true;
  bool is_causal = false;  // query i uses the keys 0 to i; attn_mask is then not read
};

// Queries, keys and values have the same width. Names and initial values are PyTorch's.
class MultiheadAttention : public Module {
 public:
  // Throws kInvalidArgument unless num_heads divides embed_dim.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     MultiheadAttentionOptions options = {});

  using Module::forward;
  // Returns the output, of query's shape, and with need_weights the attention weights [N, L, S]
  // ([N, heads, L, S] if they are not averaged), else an undefined tensor. Without a batch, query
  // is [L, E], key and value are [S, E], key_padding_mask is [S], and nothing has N. A query with
  // all keys masked gives NaN with need_weights, as in PyTorch, and without it the bias of
  // out_proj.
  std::pair<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const MultiheadAttentionMasks& masks = {});
  std::pair<Tensor, Tensor> operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const MultiheadAttentionMasks& masks = {}) {
    return forward(query, key, value, masks);
  }
  void reset_parameters();

  std::int64_t embed_dim;
  std::int64_t num_heads;
  MultiheadAttentionOptions options;
  Tensor& in_proj_weight;  // [3 embed_dim, embed_dim]: of queries, keys, values
  Tensor& in_proj_bias;
  Linear& out_proj;
};

}  // namespace dl::nn
