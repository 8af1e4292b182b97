// The layers of transformers, beside PyTorch's.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/layers/transformer/transformer.h"
#include "nn/utils/prune/prune.h"
#include "tests/nn/first_steps.h"

namespace dl::nn {
namespace {

const parity::Arrays& transformers() {
  static const parity::Arrays arrays("transformers");
  return arrays;
}

Tensor causal(std::int64_t size) {
  return Transformer::generate_square_subsequent_mask(size, {.dtype = DType::kF64});
}
Tensor hidden_words() {
  return tensor({{0, 0, 0, 0, 1}, {0, 0, 1, 0, 1}}).to(DType::kBool);
}
Tensor hidden_memory() {
  return tensor({{0, 1, 0, 0}, {1, 0, 0, 1}}).to(DType::kBool);
}

const TransformerLayerOptions kLayer{.dim_feedforward = 12};
const TransformerLayerOptions kOther{.dim_feedforward = 12,
                                     .dropout = 0.25,
                                     .activation = "gelu",
                                     .layer_norm_eps = 1e-3,
                                     .batch_first = true,
                                     .norm_first = true,
                                     .bias = false};

// The model's inputs are drawn after its weights.
template <typename Make, typename Run>
void expect_pytorchs(const std::string& name, std::string& texts, const std::vector<Shape>& shapes,
                     const Make& make, const Run& run) {
  manual_seed(123);
  auto model = make();
  texts += (texts.empty() ? "" : "\n") + model.str();
  expect_initial_values(transformers(), name, model);
  model.to(DType::kF64);
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(randn(shape).to(DType::kF64));
  expect_first_steps(transformers(), name, model,
                     {.output = [&] { return run(model, inputs); },
                      .loss =
                          [](const Tensor& output) {
                            const Tensor from_one = output - 1;
                            return mean(from_one * from_one);
                          }});
}

TEST(Transformer, TrainsAsPyTorchs) {
  std::string texts;
  using Given = std::vector<Tensor>;
  expect_pytorchs(
      "encoder_layer", texts, {{5, 2, 8}}, [] { return TransformerEncoderLayer(8, 2, kLayer); },
      [](auto& model, const Given& in) { return model(in[0]); });
  expect_pytorchs(
      "encoder_layer_masks", texts, {{2, 5, 8}},
      [] { return TransformerEncoderLayer(8, 2, kOther); },
      [](auto& model, const Given& in) {
        return model(in[0], {.src_mask = causal(5), .src_key_padding_mask = hidden_words()});
      });
  expect_pytorchs(
      "decoder_layer", texts, {{5, 2, 8}, {4, 2, 8}},
      [] { return TransformerDecoderLayer(8, 2, kLayer); },
      [](auto& model, const Given& in) { return model(in[0], in[1]); });
  expect_pytorchs(
      "decoder_layer_masks", texts, {{2, 5, 8}, {2, 4, 8}},
      [] { return TransformerDecoderLayer(8, 2, kOther); },
      [](auto& model, const Given& in) {
        const Tensor later = lt(causal(5), 0.0).slice(1, 0, 4);
        return model(
            in[0], in[1],
            {.memory_mask = later, .tgt_key_padding_mask = hidden_words(), .tgt_is_causal = true});
      });
  expect_pytorchs(
      "encoder", texts, {{5, 2, 8}},
      [] { return TransformerEncoder(TransformerEncoderLayer(8, 2, kLayer), 3); },
      [](auto& model, const Given& in) { return model(in[0], {.is_causal = true}); });
  expect_pytorchs(
      "decoder", texts, {{5, 2, 8}, {4, 2, 8}},
      [] { return TransformerDecoder(TransformerDecoderLayer(8, 2, kLayer), 2, LayerNorm(8)); },
      [](auto& model, const Given& in) {
        return model(in[0], in[1], {.memory_key_padding_mask = hidden_memory()});
      });
  Generator generator(2);
  const Tensor added = randn({4, 4}, {}, generator).to(DType::kF64);
  expect_pytorchs(
      "transformer", texts, {{2, 4, 8}, {2, 5, 8}},
      [] {
        return Transformer({.d_model = 8,
                            .nhead = 2,
                            .num_encoder_layers = 2,
                            .num_decoder_layers = 1,
                            .dim_feedforward = 12,
                            .batch_first = true});
      },
      [&](auto& model, const Given& in) {
        return model(in[0], in[1],
                     {.src_mask = added,
                      .tgt_mask = causal(5),
                      .memory_mask = zeros({5, 4}, {.dtype = DType::kF64}),
                      .src_key_padding_mask = hidden_memory().to(DType::kF64),
                      .memory_key_padding_mask = hidden_memory(),
                      .tgt_is_causal = true});
      });
  EXPECT_EQ(texts, text_of(transformers(), "text"));
}

TEST(Transformer, MakesPyTorchsCausalMask) {
  EXPECT_EQ(values<double>(causal(3)), transformers().get<double>("square"));
  EXPECT_EQ(Transformer::generate_square_subsequent_mask(2, {.dtype = DType::kBF16}).dtype(),
            DType::kBF16);
}

TEST(TransformerEncoder, CopiesItsLayerWithoutDrawing) {
  manual_seed(7);
  TransformerEncoderLayer layer(8, 2, kOther);
  layer.to(DType::kF64).eval();
  const float next = randn({1}).item<float>();
  manual_seed(7);
  TransformerEncoderLayer again(8, 2, kOther);
  again.to(DType::kF64).eval();
  TransformerEncoder encoder(std::move(again), 2);
  EXPECT_EQ(randn({1}).item<float>(), next);
  for (const NamedModule& entry : encoder.named_modules()) {
    if (!entry.name.starts_with("layers.")) continue;
    EXPECT_FALSE(entry.module->is_training()) << entry.name;
  }
  Tensor& first = encoder.get_parameter("layers.0.linear1.weight");
  Tensor& second = encoder.get_parameter("layers.1.linear1.weight");
  EXPECT_EQ(values<double>(first.detach()), values<double>(second.detach()));
  const NoGradGuard no_grad;
  first.fill_(0);
  EXPECT_NE(values<double>(second), values<double>(first));
}

// A position sees the earlier ones only, whichever way that is said, with a batch or without.
TEST(MultiheadAttention, OfACausalCallHidesWhatFollows) {
  MultiheadAttention attention(8, 2, {.batch_first = true, .dtype = DType::kF64});
  const Tensor x = randn({2, 4, 8}, {.dtype = DType::kF64});
  const NoGradGuard no_grad;
  for (const bool need_weights : {false, true}) {
    const Tensor mask = causal(4);
    const auto [wanted, shares] =
        attention(x, x, x, {.attn_mask = mask, .need_weights = need_weights});
    const auto [output, weights] =
        attention(x, x, x, {.need_weights = need_weights, .is_causal = true});
    EXPECT_EQ(values<double>(output), values<double>(wanted));
    EXPECT_EQ(weights.defined(), need_weights);
    if (need_weights) {
      EXPECT_EQ(values<double>(weights), values<double>(shares));
    }
    const Tensor one = attention(x[0], x[0], x[0], {.is_causal = true}).first;
    parity::expect_near_share(one, values<double>(wanted[0]), 1e-14, "without a batch");
  }
}

// Queries, keys and values of one tensor are projected by one product.
TEST(MultiheadAttention, OfOneTensorIsThatOfThreeEqualOnes) {
  MultiheadAttention attention(8, 2, {.dtype = DType::kF64});
  const Tensor x = randn({4, 2, 8}, {.dtype = DType::kF64});
  const auto gradient_of = [&](const Tensor& key, const Tensor& value) {
    attention.zero_grad();
    attention(x, key, value).first.square().sum().backward();
    return values<double>(attention.in_proj_weight.grad());
  };
  const Tensor three = attention(x, x.clone(), x.clone()).first.detach();
  parity::expect_near_share(attention(x, x, x).first.detach(), values<double>(three), 1e-14, "y");
  const std::vector<double> wanted = gradient_of(x.clone(), x.clone());
  gradient_of(x, x);
  parity::expect_near_share(attention.in_proj_weight.grad(), wanted, 1e-14, "gradient");
}

// With all weights of linear1, or of the projections, masked, the layer's result changes.
void expect_pruned_weight_is_used(const std::string& path, const std::string& name) {
  manual_seed(5);
  TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 12, .dropout = 0});
  layer.eval();
  const NoGradGuard no_grad;
  const Tensor x = randn({3, 2, 8});
  Module& part = layer.get_submodule(path);
  utils::prune::identity(part, name);
  const Tensor before = layer(x);
  for (const NamedTensor& each : part.named_buffers(false)) each.tensor.select(0, 1).fill_(0);
  const Tensor pruned = layer(x);
  EXPECT_GT((pruned - before).abs().amax().item<float>(), 0);
  utils::prune::remove(part, name);
  EXPECT_EQ(values<float>(layer(x)), values<float>(pruned));
}

TEST(Transformer, APrunedWeightIsComputedInEachCall) {
  expect_pruned_weight_is_used("linear1", "weight");
  expect_pruned_weight_is_used("self_attn", "in_proj_weight");
}

TEST(MultiheadAttention, TakesFloatMasksUnderAutocast) {
  manual_seed(6);
  MultiheadAttention attention(8, 2);
  const NoGradGuard no_grad;
  const Tensor x = randn({4, 2, 8});
  const Tensor mask = Transformer::generate_square_subsequent_mask(4);
  const MultiheadAttentionMasks masks{
      .key_padding_mask = zeros({2, 4}), .attn_mask = mask, .need_weights = false};
  const Tensor wanted = attention(x, x, x, masks).first;
  const autocast mixed(DeviceType::kCPU, {.dtype = DType::kBF16});
  const Tensor got = attention(x, x, x, masks).first;
  EXPECT_EQ(got.dtype(), DType::kBF16);
  EXPECT_LT((got.to(DType::kF32) - wanted).abs().amax().item<float>(), 0.05F);
}

TEST(Transformer, RefusesWhatThereIsNot) {
  EXPECT_ERROR(TransformerEncoderLayer(8, 2, {.activation = "tanh"}), kInvalidArgument,
               "TransformerEncoderLayer: activation is \"tanh\", wanted \"relu\" or \"gelu\"");
  EXPECT_ERROR(TransformerDecoderLayer(8, 3), kInvalidArgument,
               "MultiheadAttention: embed_dim is 8, wanted a positive multiple of num_heads = 3");
  EXPECT_ERROR(TransformerEncoder(TransformerEncoderLayer(8, 2), 0), kInvalidArgument,
               "TransformerEncoder: num_layers is 0, wanted at least 1");
  TransformerEncoderLayer layer(8, 2);
  EXPECT_ERROR(layer(zeros({5, 2, 8}), {.src_mask = zeros({4, 4})}), kShape,
               "MultiheadAttention: attn_mask has shape [4, 4], wanted [5, 5], or [4, 5, 5] for "
               "masks of each head");
}

}  // namespace
}  // namespace dl::nn
