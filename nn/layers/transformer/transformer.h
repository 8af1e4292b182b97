// The layers of a transformer (Vaswani et al. 2017), with PyTorch's names and initial values.
//
//     nn::TransformerEncoder encoder(
//         nn::TransformerEncoderLayer(512, 8, {.batch_first = true}), /*num_layers=*/6);
//     const Tensor y = encoder(x, {.is_causal = true});  // [N, L, 512]
//
// Sequences are [L, N, d_model], or [N, L, d_model] with batch_first, or [L, d_model] without a
// batch; the result has the shape of the first one. Masks are those of MultiheadAttention
// (nn/layers/attention.h): a mask [L, S] or [N nhead, L, S], a padding mask [N, S]; bool, true:
// ignore; or numbers to add. With is_causal, position i uses the positions 0 to i, and the mask is
// not read. Throws kShape for other shapes. Forward hooks of these classes run in calls with one
// tensor only: not with masks or a memory, and not for the layers of an encoder or a decoder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/tensor/factories.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/attention.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/module/module.h"
#include "nn/module/module_list.h"

namespace dl::nn {

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or "gelu", in its exact form
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // normalise the input of each part, not the sum after it
  bool bias = true;
  DType dtype = DType::kF32;
};

struct EncoderMasks {
  Tensor src_mask{};
  Tensor src_key_padding_mask{};
  bool is_causal = false;
};

// Attention of the positions to each other, then two linear layers; each added to its input.
class TransformerEncoderLayer : public Module {
 public:
  // Throws kInvalidArgument unless nhead divides d_model, and for an unknown activation.
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});

  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  Tensor forward(const Tensor& src, const EncoderMasks& masks);
  using Module::operator();
  Tensor operator()(const Tensor& src, const EncoderMasks& masks) { return forward(src, masks); }

  TransformerLayerOptions options;
  MultiheadAttention& self_attn;
  Linear& linear1;
  Dropout& dropout;
  Linear& linear2;
  LayerNorm& norm1;
  LayerNorm& norm2;
  Dropout& dropout1;
  Dropout& dropout2;
};

struct DecoderMasks {
  Tensor tgt_mask{};
  Tensor memory_mask{};
  Tensor tgt_key_padding_mask{};
  Tensor memory_key_padding_mask{};
  bool tgt_is_causal = false;
  bool memory_is_causal = false;
};

// An encoder layer that also attends to `memory`, the output of an encoder.
class TransformerDecoderLayer : public Module {
 public:
  // Throws as TransformerEncoderLayer().
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});

  using Module::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) {
    return forward(tgt, memory, masks);
  }

  TransformerLayerOptions options;
  MultiheadAttention& self_attn;
  MultiheadAttention& multihead_attn;
  Linear& linear1;
  Dropout& dropout;
  Linear& linear2;
  LayerNorm& norm1;
  LayerNorm& norm2;
  LayerNorm& norm3;
  Dropout& dropout1;
  Dropout& dropout2;
  Dropout& dropout3;
};

// num_layers layers one after another: `layer`, and copies with its initial values.
class TransformerEncoder : public Module {
 public:
  // Throws kInvalidArgument unless num_layers is at least 1.
  TransformerEncoder(TransformerEncoderLayer layer, std::int64_t num_layers,
                     std::optional<LayerNorm> norm = {});

  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  Tensor forward(const Tensor& src, const EncoderMasks& masks);
  using Module::operator();
  Tensor operator()(const Tensor& src, const EncoderMasks& masks) { return forward(src, masks); }

  ModuleList& layers;
};

class TransformerDecoder : public Module {
 public:
  TransformerDecoder(TransformerDecoderLayer layer, std::int64_t num_layers,
                     std::optional<LayerNorm> norm = {});

  using Module::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) {
    return forward(tgt, memory, masks);
  }

  ModuleList& layers;
};

struct TransformerOptions {
  std::int64_t d_model = 512;
  std::int64_t nhead = 8;
  std::int64_t num_encoder_layers = 6;
  std::int64_t num_decoder_layers = 6;
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
  DType dtype = DType::kF32;
};

struct TransformerMasks {
  Tensor src_mask{};
  Tensor tgt_mask{};
  Tensor memory_mask{};
  Tensor src_key_padding_mask{};
  Tensor tgt_key_padding_mask{};
  Tensor memory_key_padding_mask{};
  bool src_is_causal = false;
  bool tgt_is_causal = false;
  bool memory_is_causal = false;
};

// An encoder of `src` and a decoder of `tgt`, each with a norm at its end.
class Transformer : public Module {
 public:
  explicit Transformer(const TransformerOptions& options = {});

  using Module::forward;
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks = {});
  Tensor operator()(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks = {}) {
    return forward(src, tgt, masks);
  }

  // A mask [size, size] of numbers to add: 0 for the positions up to a row's own, else -infinity.
  static Tensor generate_square_subsequent_mask(std::int64_t size, TensorOptions options = {});

  TransformerOptions options;
  TransformerEncoder& encoder;
  TransformerDecoder& decoder;
};

}  // namespace dl::nn
