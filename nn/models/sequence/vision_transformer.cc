#include "nn/models/sequence/vision_transformer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/attention.h"
#include "nn/layers/linear.h"
#include "nn/module/init.h"

namespace dl::nn::models {
namespace {

constexpr LayerNormOptions kViTNorm{.eps = 1e-6};

struct ViTLayout {
  std::string_view name;
  std::int64_t patch_size;
  std::int64_t layers;
  std::int64_t heads;
  std::int64_t hidden;
  std::int64_t mlp;
};
constexpr ViTLayout kViTLayouts[] = {{"b_16", 16, 12, 12, 768, 3072},
                                     {"b_32", 32, 12, 12, 768, 3072},
                                     {"l_16", 16, 24, 16, 1024, 4096},
                                     {"l_32", 32, 24, 16, 1024, 4096},
                                     {"h_14", 14, 32, 16, 1280, 5120}};

const VisionTransformerOptions& checked(const VisionTransformerOptions& o) {
  DL_CHECK(std::min({o.image_size, o.patch_size, o.num_layers, o.num_heads, o.hidden_dim, o.mlp_dim,
                     o.num_classes}) > 0,
           kInvalidArgument,
           "VisionTransformer: image_size is {}, patch_size {}, num_layers {}, num_heads {}, "
           "hidden_dim {}, mlp_dim {}, num_classes {}; wanted at least 1 of each",
           o.image_size, o.patch_size, o.num_layers, o.num_heads, o.hidden_dim, o.mlp_dim,
           o.num_classes);
  DL_CHECK(o.image_size % o.patch_size == 0, kInvalidArgument,
           "VisionTransformer: image_size is {}, wanted a multiple of patch_size = {}",
           o.image_size, o.patch_size);
  DL_CHECK(o.attention_dropout >= 0 && o.attention_dropout <= 1, kInvalidArgument,
           "VisionTransformer: attention_dropout is {}, wanted 0 to 1", o.attention_dropout);
  return o;
}

// Two linear layers. Draws the default values of both before it draws their replacements, as
// torchvision does.
Sequential mlp(const VisionTransformerOptions& o) {
  Sequential layers{Linear(o.hidden_dim, o.mlp_dim), GELU(), Dropout(o.dropout),
                    Linear(o.mlp_dim, o.hidden_dim), Dropout(o.dropout)};
  for (const std::size_t i : {0, 3}) {
    auto& linear = layers.at<Linear>(i);
    init::xavier_uniform_(linear.weight);
    init::normal_(linear.bias, 0, 1e-6);
  }
  return layers;
}

class EncoderBlock final : public Module {
 public:
  explicit EncoderBlock(const VisionTransformerOptions& o)
      : ln_1_(register_module("ln_1", LayerNorm(o.hidden_dim, kViTNorm))),
        self_attention_(register_module(
            "self_attention",
            MultiheadAttention(o.hidden_dim, o.num_heads,
                               {.dropout = o.attention_dropout, .batch_first = true}))),
        dropout_(register_module("dropout", Dropout(o.dropout))),
        ln_2_(register_module("ln_2", LayerNorm(o.hidden_dim, kViTNorm))),
        mlp_(register_module("mlp", mlp(o))) {}
  Tensor forward(const Tensor& input) override {
    const Tensor y = ln_1_(input);
    const Tensor mixed = self_attention_(y, y, y, {.need_weights = false}).first;
    const Tensor x = dropout_(mixed) + input;
    return x + mlp_(ln_2_(x));
  }

 private:
  LayerNorm& ln_1_;
  MultiheadAttention& self_attention_;
  Dropout& dropout_;
  LayerNorm& ln_2_;
  Sequential& mlp_;
};

Sequential blocks(const VisionTransformerOptions& o) {
  Sequential layers;
  for (std::int64_t i = 0; i < o.num_layers; ++i) {
    layers.add("encoder_layer_" + std::to_string(i), EncoderBlock(o));
  }
  return layers;
}

class Encoder final : public Module {
 public:
  Encoder(std::int64_t positions, const VisionTransformerOptions& o)
      : pos_embedding_(register_parameter("pos_embedding", initial(positions, o.hidden_dim))),
        dropout_(register_module("dropout", Dropout(o.dropout))),
        layers_(register_module("layers", blocks(o))),
        ln_(register_module("ln", LayerNorm(o.hidden_dim, kViTNorm))) {}
  Tensor forward(const Tensor& input) override {
    return ln_(layers_(dropout_(input + pos_embedding_)));
  }

 private:
  static Tensor initial(std::int64_t positions, std::int64_t width) {
    Tensor embedding = empty({1, positions, width});
    return init::normal_(embedding, 0, 0.02);
  }

  Tensor& pos_embedding_;  // [1, positions, hidden_dim]
  Dropout& dropout_;
  Sequential& layers_;
  LayerNorm& ln_;
};

Encoder encoder(const VisionTransformerOptions& o) {
  const std::int64_t patches = o.image_size / o.patch_size;
  return Encoder(patches * patches + 1, o);
}

Sequential heads(const VisionTransformerOptions& o) {
  return {{"head", Linear(o.hidden_dim, o.num_classes)}};
}

}  // namespace

VisionTransformerOptions vit_options(std::string_view name) {
  for (const ViTLayout& layout : kViTLayouts) {
    if (layout.name != name) continue;
    return {.patch_size = layout.patch_size,
            .num_layers = layout.layers,
            .num_heads = layout.heads,
            .hidden_dim = layout.hidden,
            .mlp_dim = layout.mlp};
  }
  throw_error(ErrorKind::kInvalidArgument,
              "vit_options: the name is \"{}\", wanted b_16, b_32, l_16, l_32 or h_14", name);
}

VisionTransformer::VisionTransformer(const VisionTransformerOptions& options)
    : options_(checked(options)),
      class_token_(register_parameter("class_token", zeros({1, 1, options.hidden_dim}))),
      conv_proj_(register_module("conv_proj", Conv2d(3, options.hidden_dim, options.patch_size,
                                                     {.stride = options.patch_size}))),
      encoder_(register_module("encoder", encoder(options))),
      heads_(register_module("heads", heads(options))) {
  const auto fan_in = static_cast<double>(init::fans_of(conv_proj_.weight).in);
  init::trunc_normal_(conv_proj_.weight, 0, std::sqrt(1 / fan_in));
  init::zeros_(conv_proj_.bias);
  auto& head = heads_.at<Linear>(0);
  init::zeros_(head.weight);
  init::zeros_(head.bias);
}

Tensor VisionTransformer::forward(const Tensor& input) {
  check_not_moved("a call");
  DL_CHECK(input.defined() && input.dim() == 4 && input.size(2) == options_.image_size &&
               input.size(3) == options_.image_size,
           kShape, "VisionTransformer: the input has shape {}, wanted [N, 3, {}, {}]",
           input.defined() ? input.sizes().str() : "none", options_.image_size,
           options_.image_size);
  const Tensor patches = conv_proj_(input).flatten(2).transpose(1, 2);
  const Tensor token = class_token_.expand({input.size(0), 1, options_.hidden_dim});
  return heads_(encoder_(cat({token, patches}, 1)).select(1, 0));
}

}  // namespace dl::nn::models
