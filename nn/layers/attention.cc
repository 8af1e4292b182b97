#include "nn/layers/attention.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/record.h"
#include "core/ops/attention/attention.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/layout.h"
#include "core/ops/linear/linear.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

// Converts a bool mask to an additive mask: 0 if an element equals `seen`, else minus infinity.
Tensor additive(const Tensor& mask, bool seen, const Tensor& like) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  return (seen ? where(mask, 0.0, kHidden) : where(mask, kHidden, 0.0))
      .to(like.dtype())
      .to(like.device());
}

// The mask as an additive mask, or undefined. With autocast, the queries may have a shorter dtype
// than the caller's.
Tensor mask_of(const Tensor& mask, bool seen, const Tensor& like, std::string_view op,
               std::string_view what) {
  if (!mask.defined()) return mask;
  if (mask.dtype() == DType::kBool) return additive(mask, seen, like);
  if (is_floating(mask.dtype()) && is_autocast_enabled(like.device().type)) {
    return mask.to(like.dtype());
  }
  DL_CHECK(mask.dtype() == like.dtype(), kDType, "{}: {} is {}, wanted bool or {}", op, what,
           dl::name_of(mask.dtype()), dl::name_of(like.dtype()));
  return mask;
}

Tensor causal(std::int64_t queries, std::int64_t keys, const Tensor& like) {
  const TensorOptions place{.device = like.device()};
  return additive(le(arange(keys, place), arange(queries, place).unsqueeze(1)), true, like);
}

void check_vectors(const Tensor& query, const Tensor& key, const Tensor& value,
                   std::string_view op) {
  DL_CHECK(query.defined() && key.defined() && value.defined(), kInvalidArgument,
           "{}: query, key or value is an undefined tensor", op);
  DL_CHECK(
      query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2 && query.size(-1) == key.size(-1) &&
          key.size(-2) == value.size(-2),
      kShape,
      "{}: query, key and value have shapes {}, {} and {}, wanted [..., L, E], [..., S, E] and "
      "[..., S, V]",
      op, query.sizes().str(), key.sizes().str(), value.sizes().str());
  DL_CHECK(query.dtype() == key.dtype() && key.dtype() == value.dtype(), kDType,
           "{}: query, key and value are {}, {} and {}, wanted one dtype", op,
           dl::name_of(query.dtype()), dl::name_of(key.dtype()), dl::name_of(value.dtype()));
}

// Scores of queries and keys; `mask` is additive and broadcast to the scores' shape, or undefined.
Tensor scores_of(const Tensor& query, const Tensor& key, double scale, const Tensor& mask) {
  const Tensor scores = mul(matmul(query, key.transpose(-2, -1)), scale);
  return mask.defined() ? add(scores, mask) : scores;
}

// Throws kShape unless the mask can be broadcast to the scores.
void check_mask(const Tensor& mask, const Tensor& query, const Tensor& key, std::string_view op) {
  if (!mask.defined()) return;
  const auto batch_of = [](const Tensor& x) {
    return Shape(std::span<const std::int64_t>(x.sizes()).first(x.sizes().size() - 2));
  };
  Shape scores = broadcast_shapes(batch_of(query), batch_of(key), op);
  scores.push_back(query.size(-2));
  scores.push_back(key.size(-2));
  const Shape& given = mask.sizes();
  bool fits = given.size() <= scores.size();
  for (std::size_t d = 1; fits && d <= given.size(); ++d) {
    const std::int64_t size = given[given.size() - d];
    fits = size == 1 || size == scores[scores.size() - d];
  }
  DL_CHECK(fits, kShape,
           "{}: attn_mask has shape {}, wanted {} or one that is broadcast to it: a row for each "
           "query, a column for each key",
           op, given.str(), scores.str());
}

// True if PyTorch uses its fused CPU kernel, whose result has the query's memory order.
bool keeps_order_of_query(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  const auto fits = [&](const Tensor& x) {
    return x.dim() == 4 && x.numel() > 0 && x.size(3) == query.size(3) && x.strides().back() == 1;
  };
  return !query.is_cuda() && options.dropout_p == 0 && fits(query) && fits(key) && fits(value) &&
         !(options.attn_mask.defined() && options.attn_mask.requires_grad());
}

// The result in the query's memory order; it has the query's shape.
Tensor in_order_of(const Tensor& result, const Tensor& query) {
  Tensor placed = empty_as_torch(query, result.sizes(), result.dtype());
  return are_same_addresses(result.sizes(), placed.strides(), result.strides())
             ? result
             : dl::detail::finish_composed(placed.copy_(result), query,
                                           "ScaledDotProductFlashAttentionForCpuBackward0");
}

// PyTorch's name of the output projection.
class NonDynamicallyQuantizableLinear final : public Linear {
 public:
  using Linear::Linear;
  std::string type_name() const override { return "NonDynamicallyQuantizableLinear"; }
};

std::int64_t head_width(std::int64_t width, std::int64_t heads) {
  DL_CHECK(width > 0 && heads > 0 && width % heads == 0, kInvalidArgument,
           "MultiheadAttention: embed_dim is {}, wanted a positive multiple of num_heads = {}",
           width, heads);
  return width / heads;
}

}  // namespace

Tensor functional::scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                                const Tensor& value,
                                                const AttentionOptions& options) {
  constexpr std::string_view kOp = "scaled_dot_product_attention";
  check_vectors(query, key, value, kOp);
  DL_CHECK(!options.is_causal || !options.attn_mask.defined(), kInvalidArgument,
           "{}: attn_mask was given with is_causal; give one of them", kOp);
  check_mask(options.attn_mask, query, key, kOp);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  if (!options.attn_mask.defined() &&
      dl::detail::takes_fused_attention(query, key, value, options.dropout_p)) {
    return dl::detail::fused_attention(
        query, key, value,
        {.scale = scale, .causal = options.is_causal, .dropout_p = options.dropout_p});
  }
  const Tensor mask = options.is_causal ? causal(query.size(-2), key.size(-2), query)
                                        : mask_of(options.attn_mask, true, query, kOp, "attn_mask");
  const Tensor scores = scores_of(query, key, scale, mask);
  // On a device, search for fully masked rows only if there is a mask, because the search is
  // expensive.
  const bool may_hide_rows = !query.is_cuda() || options.attn_mask.defined();
  const Tensor shares = may_hide_rows ? dl::detail::safe_softmax(scores, -1) : softmax(scores, -1);
  const Tensor result = matmul(dropout(shares, options.dropout_p), value);
  return keeps_order_of_query(query, key, value, options) ? in_order_of(result, query) : result;
}

MultiheadAttention::MultiheadAttention(std::int64_t width, std::int64_t heads,
                                       MultiheadAttentionOptions given)
    : embed_dim(width),
      num_heads(heads),
      options(given),
      in_proj_weight(register_parameter(
          "in_proj_weight",
          empty({3 * head_width(width, heads) * heads, width}, {.dtype = given.dtype}))),
      in_proj_bias(register_parameter(
          "in_proj_bias", given.bias ? empty({3 * width}, {.dtype = given.dtype}) : Tensor())),
      out_proj(register_module("out_proj",
                               NonDynamicallyQuantizableLinear(
                                   width, width, {.bias = given.bias, .dtype = given.dtype}))) {
  reset_parameters();
}

void MultiheadAttention::reset_parameters() {
  check_not_moved("reset_parameters");
  init::xavier_uniform_(in_proj_weight);
  if (!in_proj_bias.defined()) return;
  init::zeros_(in_proj_bias);
  init::zeros_(out_proj.bias);
}

std::pair<Tensor, Tensor> MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                                      const Tensor& value,
                                                      const MultiheadAttentionMasks& masks) {
  constexpr std::string_view kOp = "MultiheadAttention";
  check_not_moved("a call");
  check_vectors(query, key, value, kOp);
  DL_CHECK((query.dim() == 2 || query.dim() == 3) && key.dim() == query.dim() &&
               value.sizes() == key.sizes() && query.size(-1) == embed_dim,
           kShape,
           "{}: query, key and value have shapes {}, {} and {}, wanted three dimensions, or two "
           "without a batch, the last {}",
           kOp, query.sizes().str(), key.sizes().str(), value.sizes().str(), embed_dim);
  if (query.dim() == 2) {
    DL_CHECK(!masks.key_padding_mask.defined() || masks.key_padding_mask.dim() == 1, kShape,
             "{}: key_padding_mask has shape {}, wanted [{}], as the query has no batch", kOp,
             masks.key_padding_mask.sizes().str(), key.size(0));
    const std::int64_t batch = options.batch_first ? 0 : 1;
    MultiheadAttentionMasks with = masks;
    if (masks.key_padding_mask.defined()) {
      with.key_padding_mask = masks.key_padding_mask.unsqueeze(0);
    }
    const Tensor q = query.unsqueeze(batch);
    const Tensor k = key.is_same(query) ? q : key.unsqueeze(batch);
    const Tensor v = value.is_same(key) ? k : value.unsqueeze(batch);
    const auto [output, shares] = forward(q, k, v, with);
    return {output.squeeze(batch), shares.defined() ? shares.squeeze(0) : shares};
  }
  compute_parameters();
  const auto batch_first = [this](const Tensor& x) {
    return options.batch_first ? x : x.transpose(0, 1);
  };
  const std::int64_t width = embed_dim / num_heads;
  // The parts [first, first + count) of the projection, each as [N, heads, positions, width].
  const auto heads_of = [&](const Tensor& x, std::int64_t first, std::int64_t count) {
    const std::int64_t rows = count * embed_dim;
    const Tensor projected =
        linear(batch_first(x), in_proj_weight.narrow(0, first * embed_dim, rows),
               in_proj_bias.defined() ? in_proj_bias.narrow(0, first * embed_dim, rows) : Tensor());
    return unbind(projected.view({projected.size(0), projected.size(1), count, num_heads, width})
                      .permute({2, 0, 3, 1, 4}));
  };
  // Queries, keys and values of one tensor are one product.
  std::vector<Tensor> parts;
  if (query.is_same(key) && key.is_same(value)) {
    parts = heads_of(query, 0, 3);
  } else {
    parts = {heads_of(query, 0, 1)[0], heads_of(key, 1, 1)[0], heads_of(value, 2, 1)[0]};
  }
  const Tensor &q = parts[0], &k = parts[1], &v = parts[2];
  if (masks.attn_mask.defined()) {
    const Shape of_all({q.size(2), k.size(2)});
    const Shape of_heads({q.size(0) * num_heads, q.size(2), k.size(2)});
    const Shape& given = masks.attn_mask.sizes();
    DL_CHECK(given == of_all || given == of_heads, kShape,
             "{}: attn_mask has shape {}, wanted {}, or {} for masks of each head", kOp,
             given.str(), of_all.str(), of_heads.str());
  }
  Tensor mask = masks.is_causal ? Tensor() : mask_of(masks.attn_mask, false, q, kOp, "attn_mask");
  if (mask.defined() && mask.dim() == 3) {
    mask = mask.view({q.size(0), num_heads, mask.size(1), mask.size(2)});
  }
  if (masks.key_padding_mask.defined()) {
    const Tensor& hidden = masks.key_padding_mask;
    DL_CHECK(hidden.sizes() == Shape({k.size(0), k.size(2)}), kShape,
             "{}: key_padding_mask has shape {}, wanted [{}, {}]", kOp, hidden.sizes().str(),
             k.size(0), k.size(2));
    const Tensor padding =
        mask_of(hidden, false, q, kOp, "key_padding_mask").view({k.size(0), 1, 1, k.size(2)});
    mask = mask.defined() ? add(mask, padding) : padding;
  }
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const double dropout_p = in_tape(options.dropout);
  const bool training = is_training();
  Tensor heads;
  Tensor shown;
  const double drawn_p = training ? dropout_p : 0;
  if (!masks.need_weights && !mask.defined() &&
      dl::detail::takes_fused_attention(q, k, v, drawn_p)) {
    heads = dl::detail::fused_attention(
        q, k, v, {.scale = scale, .causal = masks.is_causal, .dropout_p = drawn_p});
  } else {
    if (masks.is_causal) {
      const Tensor earlier = causal(q.size(2), k.size(2), q);
      mask = mask.defined() ? add(mask, earlier) : earlier;
    }
    const Tensor scores = scores_of(q, k, scale, mask);
    // As in PyTorch, with need_weights a query without keys gives NaN.
    const bool may_hide_rows = mask.defined() && !masks.need_weights;
    const Tensor shares =
        may_hide_rows ? dl::detail::safe_softmax(scores, -1) : softmax(scores, -1);
    const Tensor kept = functional::dropout(shares, dropout_p, {.training = training});
    heads = matmul(kept, v);
    if (masks.need_weights) shown = masks.average_attn_weights ? mean(kept, {1}) : kept;
  }
  // [L, N, E] in memory also for a result of shape [N, L, E]: a dropout after it draws in this
  // order, as after PyTorch's layer.
  const Tensor joined = heads.permute({2, 0, 1, 3}).reshape({q.size(2), q.size(0), embed_dim});
  const Tensor output = out_proj(joined);
  return {options.batch_first ? output.transpose(0, 1) : output, shown};
}

}  // namespace dl::nn
