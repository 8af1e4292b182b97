#include "nn/layers/transformer/transformer.h"

#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/shape/shape.h"
#include "nn/functional/functional.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

const TransformerLayerOptions& checked(std::string_view layer, const TransformerLayerOptions& o) {
  DL_CHECK(o.activation == "relu" || o.activation == "gelu", kInvalidArgument,
           "{}: activation is \"{}\", wanted \"relu\" or \"gelu\"", layer, o.activation);
  return o;
}

MultiheadAttention attention_of(std::int64_t width, std::int64_t heads,
                                const TransformerLayerOptions& o) {
  return MultiheadAttention(
      width, heads,
      {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first, .dtype = o.dtype});
}
LinearOptions linear_options(const TransformerLayerOptions& o) {
  return {.bias = o.bias, .dtype = o.dtype};
}
LayerNormOptions norm_options(const TransformerLayerOptions& o) {
  return {.eps = o.layer_norm_eps, .bias = o.bias, .dtype = o.dtype};
}

// Adds to x what `part` makes of it, normalised before or after.
template <typename Part>
Tensor residual(const Tensor& x, LayerNorm& norm, bool norm_first, const Part& part) {
  return norm_first ? x + part(norm(x)) : norm(x + part(x));
}

// The activation, fused with linear1 if that is possible.
template <typename Layer>
Tensor feed_forward(Layer& layer, const Tensor& x) {
  const Fusion with_relu{.after = Activation::kRelu};
  const bool is_relu = layer.options.activation == "relu";
  Linear& first = layer.linear1;
  Tensor inner;
  if (is_relu && !first.has_forward_hooks() && first.can_fuse(with_relu)) {
    first.compute_parameters();
    inner = first.forward_fused(x, with_relu);
  } else {
    const Tensor y = first(x);
    inner = is_relu ? functional::relu(y) : functional::gelu(y);
  }
  return layer.linear2(layer.dropout(inner));
}

// The layer and copies of it.
template <typename Layer>
ModuleList stack_of(Layer layer, std::int64_t count, std::string_view name) {
  DL_CHECK(count >= 1, kInvalidArgument, "{}: num_layers is {}, wanted at least 1", name, count);
  ModuleList layers;
  const Layer& first = layers.add(std::move(layer));
  const Tensor& weight = first.linear1.weight;
  TransformerLayerOptions options = first.options;
  options.dtype = weight.dtype();
  for (std::int64_t i = 1; i < count; ++i) {
    const init::NoInitGuard no_init;
    Layer copy(first.self_attn.embed_dim, first.self_attn.num_heads, options);
    copy.to(weight.device());
    copy.load_state_dict(first.state_dict());
    if (!first.is_training()) copy.eval();
    layers.add(std::move(copy));
  }
  return layers;
}

TransformerLayerOptions layer_options(const TransformerOptions& o) {
  return {.dim_feedforward = o.dim_feedforward,
          .dropout = o.dropout,
          .activation = o.activation,
          .layer_norm_eps = o.layer_norm_eps,
          .batch_first = o.batch_first,
          .norm_first = o.norm_first,
          .bias = o.bias,
          .dtype = o.dtype};
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& given)
    : options(checked("TransformerEncoderLayer", given)),
      self_attn(register_module("self_attn", attention_of(d_model, nhead, options))),
      linear1(register_module("linear1",
                              Linear(d_model, options.dim_feedforward, linear_options(options)))),
      dropout(register_module("dropout", Dropout(options.dropout))),
      linear2(register_module("linear2",
                              Linear(options.dim_feedforward, d_model, linear_options(options)))),
      norm1(register_module("norm1", LayerNorm(d_model, norm_options(options)))),
      norm2(register_module("norm2", LayerNorm(d_model, norm_options(options)))),
      dropout1(register_module("dropout1", Dropout(options.dropout))),
      dropout2(register_module("dropout2", Dropout(options.dropout))) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncoderMasks& masks) {
  check_not_moved("a call");
  const Tensor x = residual(src, norm1, options.norm_first, [&](const Tensor& y) {
    return dropout1(self_attn(y, y, y,
                              {.key_padding_mask = masks.src_key_padding_mask,
                               .attn_mask = masks.src_mask,
                               .need_weights = false,
                               .is_causal = masks.is_causal})
                        .first);
  });
  return residual(x, norm2, options.norm_first,
                  [&](const Tensor& y) { return dropout2(feed_forward(*this, y)); });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& given)
    : options(checked("TransformerDecoderLayer", given)),
      self_attn(register_module("self_attn", attention_of(d_model, nhead, options))),
      multihead_attn(register_module("multihead_attn", attention_of(d_model, nhead, options))),
      linear1(register_module("linear1",
                              Linear(d_model, options.dim_feedforward, linear_options(options)))),
      dropout(register_module("dropout", Dropout(options.dropout))),
      linear2(register_module("linear2",
                              Linear(options.dim_feedforward, d_model, linear_options(options)))),
      norm1(register_module("norm1", LayerNorm(d_model, norm_options(options)))),
      norm2(register_module("norm2", LayerNorm(d_model, norm_options(options)))),
      norm3(register_module("norm3", LayerNorm(d_model, norm_options(options)))),
      dropout1(register_module("dropout1", Dropout(options.dropout))),
      dropout2(register_module("dropout2", Dropout(options.dropout))),
      dropout3(register_module("dropout3", Dropout(options.dropout))) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const DecoderMasks& masks) {
  check_not_moved("a call");
  const Tensor x = residual(tgt, norm1, options.norm_first, [&](const Tensor& y) {
    return dropout1(self_attn(y, y, y,
                              {.key_padding_mask = masks.tgt_key_padding_mask,
                               .attn_mask = masks.tgt_mask,
                               .need_weights = false,
                               .is_causal = masks.tgt_is_causal})
                        .first);
  });
  const Tensor with_memory = residual(x, norm2, options.norm_first, [&](const Tensor& y) {
    return dropout2(multihead_attn(y, memory, memory,
                                   {.key_padding_mask = masks.memory_key_padding_mask,
                                    .attn_mask = masks.memory_mask,
                                    .need_weights = false,
                                    .is_causal = masks.memory_is_causal})
                        .first);
  });
  return residual(with_memory, norm3, options.norm_first,
                  [&](const Tensor& y) { return dropout3(feed_forward(*this, y)); });
}

TransformerEncoder::TransformerEncoder(TransformerEncoderLayer layer, std::int64_t num_layers,
                                       std::optional<LayerNorm> norm)
    : layers(
          register_module("layers", stack_of(std::move(layer), num_layers, "TransformerEncoder"))) {
  if (norm) register_module("norm", std::move(*norm));
}

Tensor TransformerEncoder::forward(const Tensor& src, const EncoderMasks& masks) {
  check_not_moved("a call");
  Tensor x = src;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = layers.at<TransformerEncoderLayer>(i)(x, masks);
  }
  return child_count() > 1 ? child(1)(x) : x;
}

TransformerDecoder::TransformerDecoder(TransformerDecoderLayer layer, std::int64_t num_layers,
                                       std::optional<LayerNorm> norm)
    : layers(
          register_module("layers", stack_of(std::move(layer), num_layers, "TransformerDecoder"))) {
  if (norm) register_module("norm", std::move(*norm));
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const DecoderMasks& masks) {
  check_not_moved("a call");
  Tensor x = tgt;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = layers.at<TransformerDecoderLayer>(i)(x, memory, masks);
  }
  return child_count() > 1 ? child(1)(x) : x;
}

Transformer::Transformer(const TransformerOptions& given)
    : options(given),
      encoder(register_module(
          "encoder", TransformerEncoder(
                         TransformerEncoderLayer(given.d_model, given.nhead, layer_options(given)),
                         given.num_encoder_layers,
                         LayerNorm(given.d_model, norm_options(layer_options(given)))))),
      decoder(register_module(
          "decoder", TransformerDecoder(
                         TransformerDecoderLayer(given.d_model, given.nhead, layer_options(given)),
                         given.num_decoder_layers,
                         LayerNorm(given.d_model, norm_options(layer_options(given)))))) {
  for (NamedTensor& parameter : named_parameters()) {
    if (parameter.tensor.dim() > 1) init::xavier_uniform_(parameter.tensor);
  }
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks) {
  check_not_moved("a call");
  const Tensor memory = encoder(src, {.src_mask = masks.src_mask,
                                      .src_key_padding_mask = masks.src_key_padding_mask,
                                      .is_causal = masks.src_is_causal});
  return decoder(tgt, memory,
                 {.tgt_mask = masks.tgt_mask,
                  .memory_mask = masks.memory_mask,
                  .tgt_key_padding_mask = masks.tgt_key_padding_mask,
                  .memory_key_padding_mask = masks.memory_key_padding_mask,
                  .tgt_is_causal = masks.tgt_is_causal,
                  .memory_is_causal = masks.memory_is_causal});
}

Tensor Transformer::generate_square_subsequent_mask(std::int64_t size, TensorOptions options) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  return triu(full({size, size}, kHidden, options), 1);
}

}  // namespace dl::nn
