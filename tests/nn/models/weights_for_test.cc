// Files of timm and transformers, by their names.
#include "nn/models/weights/weights_for.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/models/efficientnet.h"
#include "nn/models/mobilenet.h"
#include "nn/models/sequence/gpt2.h"
#include "nn/models/sequence/vision_transformer.h"
#include "nn/serialize/safetensors.h"

namespace dl::nn::models {
namespace {

std::string source(const std::string& path) {
  return std::string(std::getenv("DLRUN_TEST_SOURCE")) + "/tests/" + path;
}

// The tensors of the committed file whose names begin so, without that.
StateDict committed(std::string_view prefix) {
  StateDict result;
  for (const auto& [name, tensor] :
       load_safetensors(source("parity/arrays/named_weights.safetensors")).tensors) {
    if (name.starts_with(prefix)) result.push_back({name.substr(prefix.size()), tensor});
  }
  return result;
}

TEST(WeightsFor, VisionTransformersComputeTheirLogits) {
  const NoGradGuard no_grad;
  const StateDict all = committed("");
  for (const std::string name : {"timm_vit", "hf_vit"}) {
    VisionTransformer model({.image_size = 16,
                             .patch_size = 8,
                             .num_layers = 2,
                             .num_heads = 2,
                             .hidden_dim = 16,
                             .mlp_dim = 24,
                             .num_classes = 5});
    model.load_state_dict(weights_for(model, committed(name + "/")));
    model.eval();
    const Tensor& wanted = *find(all, name + "_output");
    const Tensor error = (model(*find(all, "image")) - wanted).abs().max();
    EXPECT_LT(error.item<float>(), 1e-5F * wanted.abs().max().item<float>()) << name;
  }
}

// The layers of timm and of the model, line by line; the file lists several networks.
StateDict as_timm(const std::string& network, const StateDict& state) {
  std::ifstream file(source("nn/models/timm_layers.txt"));
  StateDict result;
  bool is_here = false;
  for (std::string theirs, ours; file >> theirs >> ours;) {
    if (theirs == "=") is_here = ours == network;
    for (const auto& [name, tensor] : state) {
      if (!is_here || name.substr(0, name.rfind('.')) != ours) continue;
      // timm's last layers of MobileNetV3 are convolutions.
      const bool is_convolution = theirs == "conv_head" && tensor.dim() == 2;
      result.push_back({theirs + name.substr(name.rfind('.')),
                        is_convolution ? tensor.unsqueeze(-1).unsqueeze(-1) : tensor});
    }
  }
  std::ranges::sort(result, {}, &NamedTensor::name);  // as in a file of safetensors
  return result;
}

void expect_same(const Module& model, const StateDict& file) {
  const StateDict state = model.state_dict();
  ASSERT_EQ(file.size(), state.size());
  const StateDict found = weights_for(model, file);
  ASSERT_EQ(found.size(), state.size());
  for (const auto& [name, tensor] : state) {
    const Tensor* const given = find(found, name);
    ASSERT_NE(given, nullptr) << name;
    EXPECT_EQ(given->data_ptr(), tensor.data_ptr()) << name;
    EXPECT_EQ(given->sizes(), tensor.sizes()) << name;
  }
}

TEST(WeightsFor, LayersOfTimmAreThoseOfTheModel) {
  const MobileNetV2 v2({.num_classes = 3});
  expect_same(v2, as_timm("mobilenetv2_100", v2.state_dict()));
  const MobileNetV3 v3({.num_classes = 3});
  expect_same(v3, as_timm("mobilenetv3_large_100", v3.state_dict()));
  const EfficientNet efficient({.num_classes = 3});
  expect_same(efficient, as_timm("efficientnet_b0", efficient.state_dict()));
}

TEST(WeightsFor, GPT2IsKnownWithAndWithoutItsPrefix) {
  const GPT2Options small{
      .vocab_size = 7, .n_positions = 4, .n_embd = 4, .n_layer = 1, .n_head = 2};
  GPT2LMHeadModel whole(small);
  GPT2Model inner(small);
  StateDict published;  // the names of the part without the last layer, and a mask
  for (const auto& [name, tensor] : inner.state_dict()) published.push_back({name, tensor});
  published.push_back({"h.0.attn.bias", ones({1, 1, 4, 4})});
  whole.load_state_dict(weights_for(whole, published));
  EXPECT_TRUE(equal(whole.transformer.wte.weight, inner.wte.weight));
  EXPECT_TRUE(equal(whole.lm_head.weight, inner.wte.weight));
  GPT2Model other(small);
  other.load_state_dict(weights_for(other, whole.state_dict()));
  EXPECT_TRUE(equal(other.wpe.weight, inner.wpe.weight));
  published.push_back({"h.1.ln_1.weight", ones({4})});
  EXPECT_THROW(whole.load_state_dict(weights_for(whole, published)), Error);
}

TEST(WeightsFor, FilesOfAnotherNetworkAreRefused) {
  VisionTransformer model({.image_size = 16,
                           .patch_size = 8,
                           .num_layers = 3,
                           .num_heads = 2,
                           .hidden_dim = 16,
                           .mlp_dim = 24,
                           .num_classes = 5});
  const auto error = [](const Module& of, const StateDict& file) -> std::string {
    try {
      weights_for(of, file);
    } catch (const Error& refused) {
      EXPECT_EQ(refused.kind(), ErrorKind::kMismatch);
      return refused.what();
    }
    return "";
  };
  StateDict file = committed("timm_vit/");
  EXPECT_EQ(error(model, file),
            "weights_for: head.weight of the file has shape [5, 16], and "
            "encoder.layers.encoder_layer_2.self_attention.in_proj_weight of the model [48, 16]");
  file.push_back({"fc_norm.weight", ones({16})});
  EXPECT_EQ(error(model, file),
            "weights_for: the file has fc_norm.weight, which no network of nn/models with such "
            "names has");
  // Files with names that are the model's own are given back.
  EXPECT_EQ(error(model, model.state_dict()), "");
}

}  // namespace
}  // namespace dl::nn::models
