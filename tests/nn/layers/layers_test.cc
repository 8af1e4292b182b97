// Pooling, resampling, convolutions, embedding and attention against PyTorch's arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <type_traits>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/embedding.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/activation_with.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/attention.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/conv/conv_variants.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"
#include "nn/layers/shape/padding.h"
#include "nn/layers/shape/shape.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/nn/parity.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

namespace F = functional;
using parity::Inputs;
using Apply = std::function<Tensor(const Inputs&)>;

Apply averages(IntPair window, AvgPool2dOptions options = {}) {
  return [=](const Inputs& in) { return AvgPool2d(window, options)(in["input"]); };
}
Apply adaptive(IntPair size) {
  return [=](const Inputs& in) { return AdaptiveAvgPool2d(size)(in["input"]); };
}
Apply upsampled(const UpsampleOptions& options) {
  return [=](const Inputs& in) { return Upsample(options)(in["input"]); };
}
Apply largest(IntPair window, F::MaxPool2dOptions options = {}) {
  return [=](const Inputs& in) { return F::max_pool2d(in["input"], window, options); };
}
Apply adaptive_largest(IntPair size) {
  return [=](const Inputs& in) { return AdaptiveMaxPool2d(size)(in["input"]); };
}
Apply attention(const AttentionOptions& options) {
  return [=](const Inputs& in) {
    AttentionOptions with = options;
    with.attn_mask = in["mask"];
    return F::scaled_dot_product_attention(in["query"], in["key"], in["value"], with);
  };
}

std::map<std::string, Apply> layer_cases() {
  constexpr auto kBilinear = UpsampleMode::kBilinear;
  return {
      {"avg_pool2d_plain", averages(2)},
      {"avg_pool2d_padded", averages(3, {.stride = 2, .padding = 1})},
      {"avg_pool2d_ceil", averages({3, 2}, {.stride = {{2, 3}}, .ceil_mode = true})},
      {"avg_pool2d_ceil_padded",
       averages(3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})},
      {"avg_pool2d_ceil_counted", averages(3, {.stride = 2, .padding = 1, .ceil_mode = true})},
      {"avg_pool2d_divisor", averages(2, {.padding = 1, .divisor_override = 3})},
      {"adaptive_avg_pool2d_1", adaptive(1)},
      {"adaptive_avg_pool2d_3x4", adaptive({3, 4})},
      {"adaptive_avg_pool2d_none", adaptive({0, 2})},
      {"adaptive_avg_pool2d_more", adaptive({9, 8})},
      {"upsample_nearest", upsampled({.scale_factor = 2})},
      {"upsample_nearest_size", upsampled({.size = {{5, 11}}})},
      {"upsample_nearest_part", upsampled({.scale_factor = 0.7})},
      {"upsample_bilinear", upsampled({.scale_factor = 2, .mode = kBilinear})},
      {"upsample_bilinear_size", upsampled({.size = {{4, 13}}, .mode = kBilinear})},
      {"upsample_bilinear_part", upsampled({.scale_factor = 1.3, .mode = kBilinear})},
      {"upsample_bilinear_corners",
       upsampled({.size = {{13, 4}}, .mode = kBilinear, .align_corners = true})},
      {"max_pool2d_plain", largest(2)},
      {"max_pool2d_ceil", largest(3, {.stride = 2, .padding = 1, .ceil_mode = true})},
      {"max_pool2d_dilated", largest(2, {.stride = 1, .dilation = 2})},
      {"adaptive_max_pool2d_1", adaptive_largest(1)},
      {"adaptive_max_pool2d_3x4", adaptive_largest({3, 4})},
      {"adaptive_max_pool2d_none", adaptive_largest({0, 2})},
      {"adaptive_max_pool2d_whole", adaptive_largest({7, 3})},
      {"avg_pool1d",
       [](const Inputs& in) {
         return AvgPool1d(
             3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})(
             in["input"]);
       }},
      {"max_pool1d",
       [](const Inputs& in) {
         return MaxPool1d(3, {.stride = 2, .padding = 1, .ceil_mode = true})(in["input"]);
       }},
      {"zero_pad", [](const Inputs& in) { return ZeroPad2d({1, 2, 0, 3})(in["input"]); }},
      {"constant_pad", [](const Inputs& in) { return ConstantPad1d(2, 3.5)(in["input"]); }},
      {"reflection_pad", [](const Inputs& in) { return ReflectionPad2d(2)(in["input"]); }},
      {"bilinear",
       [](const Inputs& in) {
         return F::bilinear(in["input"], in["other"], in["filters"], in["bias"]);
       }},
      {"conv1d",
       [](const Inputs& in) {
         return F::conv1d(in["input"], in["filters"], in["bias"],
                          {.stride = 2, .padding = 1, .dilation = 2, .groups = 2});
       }},
      {"conv_transpose2d",
       [](const Inputs& in) {
         return F::conv_transpose2d(in["input"], in["filters"], in["bias"]);
       }},
      {"conv_transpose2d_all",
       [](const Inputs& in) {
         return F::conv_transpose2d(in["input"], in["filters"], {},
                                    {.stride = {2, 3},
                                     .padding = {1, 0},
                                     .output_padding = {1, 2},
                                     .groups = 2,
                                     .dilation = {2, 1}});
       }},
      {"embedding", [](const Inputs& in) { return embedding(in["table"], in["index"]); }},
      {"embedding_padding",
       [](const Inputs& in) { return embedding(in["table"], in["index"], 1); }},
      {"attention", attention({})},
      {"attention_causal", attention({.is_causal = true, .scale = 0.3})},
      {"attention_mask", attention({})},
  };
}

TEST(Layers, AgreeWithPyTorch) {
  const parity::Arrays arrays("layers");
  std::size_t made = 0;
  for (const std::string& name : arrays.names()) made += name.ends_with(".g") ? 1 : 0;
  EXPECT_EQ(layer_cases().size(), made) << "a case of layers.safetensors has no test";
  for (const auto& [name, apply] : layer_cases()) {
    parity::expect_agreement(arrays, name, name, apply, {.float32 = 2e-6, .roundings = 16});
  }
}

TEST(MultiheadAttention, AgreesWithPyTorch) {
  const parity::Arrays arrays("layers");
  const auto array = [&](const std::string& name, const Shape& shape) {
    return tensor(arrays.get<double>("multihead." + name), {.dtype = DType::kF64}).view(shape);
  };
  manual_seed(5);
  MultiheadAttention layer(6, 2, {.batch_first = true});
  for (const NamedTensor& p : layer.state_dict()) {
    EXPECT_EQ(values<double>(p.tensor), arrays.get<double>("multihead." + p.name)) << p.name;
  }
  layer.to(DType::kF64);
  const Tensor hidden =
      tensor(arrays.get<std::int64_t>("multihead.hidden")).view({2, 4}).to(DType::kBool);
  const Tensor x = array("query", {2, 5, 6});
  const Tensor y = array("key", {2, 4, 6});
  const auto [output, shares] = layer(x, y, y, {.key_padding_mask = hidden});
  parity::expect_near_share(output.detach(), arrays.get<double>("multihead.y"), 1e-12, "y");
  parity::expect_near_share(shares.detach(), arrays.get<double>("multihead.shares"), 1e-12,
                            "shares");
  output.backward(ones({2, 5, 6}, {.dtype = DType::kF64}));
  for (const NamedTensor& p : layer.named_parameters()) {
    parity::expect_near_share(p.tensor.grad(), arrays.get<double>("multihead.d_" + p.name), 1e-12,
                              p.name);
  }
}

TEST(Attention, BoolMasksAreNumbersToAdd) {
  const Tensor x = random_tensor({1, 3, 4}, DType::kF64);
  const Tensor seen = tensor({{1, 0, 0}, {1, 1, 0}, {1, 1, 1}}).to(DType::kBool);
  const auto causal = values<double>(F::scaled_dot_product_attention(x, x, x, {.is_causal = true}));
  EXPECT_EQ(values<double>(F::scaled_dot_product_attention(x, x, x, {.attn_mask = seen})), causal);
  // MultiheadAttention's bool masks say what is not seen, as PyTorch's do.
  MultiheadAttention layer(4, 2, {.batch_first = true, .dtype = DType::kF64});
  const Tensor hidden = eq(seen, false);
  const auto [one, shares] = layer(x, x, x, {.attn_mask = hidden, .average_attn_weights = false});
  EXPECT_EQ(shares.sizes(), Shape({1, 2, 3, 3}));
  EXPECT_EQ(shares.detach()[0][1][0][2].item<double>(), 0);
  const auto [two, none] = layer(x, x, x, {.attn_mask = hidden, .need_weights = false});
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(values<double>(one.detach()), values<double>(two.detach()));
  EXPECT_ERROR(
      F::scaled_dot_product_attention(x, x, x, {.attn_mask = seen, .is_causal = true}),
      kInvalidArgument,
      "scaled_dot_product_attention: attn_mask was given with is_causal; give one of them");
}

bool has_nan(const Tensor& x) {
  return any(ne(x, x)).item<bool>();
}

// torch.nn.functional.scaled_dot_product_attention: 0 for a query without keys, and no gradient.
TEST(Attention, OfAQueryThatSeesNoKeyIsZero) {
  const Tensor hides_first = tensor({{0, 0, 0}, {1, 1, 0}, {1, 1, 1}}).to(DType::kBool);
  const Tensor numbers = tensor({{1, 1, 1}, {0, 0, 1}, {0, 0, 0}}).to(DType::kBool);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    const Tensor added = masked_fill(zeros({3, 3}, {.dtype = dtype}), numbers,
                                     -std::numeric_limits<double>::infinity());
    for (const Tensor& mask : {hides_first, added, added.clone().requires_grad_()}) {
      for (const double p : {0.0, 0.5}) {
        const Tensor q = random_tensor({2, 1, 3, 4}, dtype, 1).requires_grad_();
        const Tensor k = random_tensor({2, 1, 3, 4}, dtype, 2).requires_grad_();
        const Tensor v = random_tensor({2, 1, 3, 4}, dtype, 3).requires_grad_();
        const Tensor y =
            F::scaled_dot_product_attention(q, k, v, {.attn_mask = mask, .dropout_p = p});
        EXPECT_EQ(values<double>(y.detach().select(2, 0)), std::vector<double>(8, 0.0));
        EXPECT_FALSE(has_nan(y.detach()));
        sum(y * y).backward();
        EXPECT_EQ(values<double>(q.grad().select(2, 0)), std::vector<double>(8, 0.0));
        for (const Tensor& x : {q, k, v}) EXPECT_FALSE(has_nan(x.grad()));
        if (mask.requires_grad()) {
          EXPECT_EQ(values<double>(mask.grad()[0]), std::vector<double>(3, 0.0));
        }
      }
    }
  }
  // NaN stays, and so does the softmax of nothing but -infinity.
  const Tensor q = full({1, 3, 4}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(has_nan(F::scaled_dot_product_attention(q, ones({1, 3, 4}), ones({1, 3, 4}),
                                                      {.attn_mask = hides_first})[0][0]));
  EXPECT_TRUE(has_nan(softmax(full({2}, -std::numeric_limits<double>::infinity()), 0)));
  EXPECT_EQ(
      values<float>(F::scaled_dot_product_attention(ones({2, 3}), ones({0, 3}), ones({0, 3}))),
      std::vector<float>(6, 0.0f));
}

// As in PyTorch, which computes the weights otherwise if they are asked for.
TEST(MultiheadAttention, OfAMaskedQueryIsTheBiasWithoutWeights) {
  MultiheadAttention layer(4, 2, {.batch_first = true});
  layer.out_proj.bias.detach().fill_(0.25);
  const Tensor x = random_tensor({2, 3, 4}, DType::kF32).requires_grad_();
  const Tensor hidden = tensor({{1, 1, 1}, {0, 0, 0}, {0, 0, 0}}).to(DType::kBool);
  const Tensor padding = tensor({{1, 1, 1}, {0, 0, 0}}).to(DType::kBool);
  const std::vector<MultiheadAttentionMasks> all{{.attn_mask = hidden},
                                                 {.key_padding_mask = padding}};
  for (MultiheadAttentionMasks masks : all) {
    const auto [output, weights] = layer(x, x, x, masks);
    EXPECT_TRUE(has_nan(output.detach()[0][0]));
    EXPECT_TRUE(has_nan(weights.detach()[0][0]));
    masks.need_weights = false;
    const Tensor alone = layer(x, x, x, masks).first;
    EXPECT_EQ(values<float>(alone.detach()[0][0]), std::vector<float>(4, 0.25f));
    x.zero_grad();
    layer.zero_grad();
    sum(alone).backward();
    EXPECT_FALSE(has_nan(x.grad()));
    EXPECT_FALSE(has_nan(layer.in_proj_weight.grad()));
  }
}

TEST(Layers, PrintTheirArgumentsAsPyTorchDoes) {
  std::string text;
  const auto show = [&](const Module& module) {
    text += (text.empty() ? "" : "\n") + module.str();
  };
  show(Embedding(5, 3));
  show(Embedding(5, 3, {.padding_idx = -1}));
  show(Dropout2d(0.3));
  show(Softmax(1));
  show(LogSoftmax(-1));
  show(Unflatten(1, {2, 3}));
  show(LeakyReLU());
  show(LeakyReLU({.negative_slope = 0.2, .inplace = true}));
  show(ELU());
  show(ELU({.alpha = 0.5, .inplace = true}));
  show(Softplus());
  show(Softplus({.beta = 2, .threshold = 5}));
  show(Hardtanh());
  show(Hardtanh({.min_val = -2, .max_val = 3, .inplace = true}));
  show(AvgPool2d(2));
  show(AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true}));
  show(AdaptiveAvgPool2d(1));
  show(AdaptiveAvgPool2d({3, 0}));
  show(Conv1d(3, 4, 3, {.padding = 1}));
  show(Conv1d(4, 4, 3, {.groups = 2, .bias = false}));
  show(ConvTranspose2d(3, 4, 2, {.stride = 2}));
  show(ConvTranspose2d(
      3, 4, 3, {.stride = 2, .padding = 1, .output_padding = 1, .bias = false, .dilation = 2}));
  show(Upsample({.scale_factor = 2}));
  show(Upsample({.size = {{3, 4}}, .mode = UpsampleMode::kBilinear}));
  show(Upsample({.size = 5}));
  show(Dropout1d());
  show(Dropout3d(0.2));
  show(AlphaDropout(0.1));
  show(SELU());
  show(SELU({.inplace = true}));
  show(CELU());
  show(CELU({.alpha = 0.5, .inplace = true}));
  show(Softshrink());
  show(Hardshrink(0.25));
  show(Threshold(0.1, 20.0));
  show(Threshold(0.1, 20.0, {.inplace = true}));
  show(Tanhshrink());
  show(PReLU());
  show(PReLU({.num_parameters = 4}));
  show(GLU());
  show(Softmin(1));
  show(PixelShuffle(2));
  show(PixelUnshuffle(3));
  show(ChannelShuffle(2));
  show(ZeroPad2d(1));
  show(ZeroPad1d({1, 2}));
  show(ConstantPad2d({1, 2, 3, 4}, 3.5));
  show(ReflectionPad2d(2));
  show(ReplicationPad3d(1));
  show(CircularPad1d(2));
  show(Bilinear(3, 4, 5));
  show(MaxPool1d(3, {.stride = 2, .ceil_mode = true}));
  show(AvgPool1d(3));
  show(AvgPool1d(3, {.stride = 2, .padding = 1}));
  show(AdaptiveMaxPool2d(5));
  show(AdaptiveMaxPool2d({3, 0}));
  show(Identity());
  EXPECT_EQ(text, text_of(parity::Arrays("layers"), "text"));
}

// Numbers of torch.nn.functional.conv2d(padding="same").
TEST(Convolutions, OfTheSameSizePadTheEndMore) {
  const Tensor x = arange(12).to(DType::kF32).view(1, 1, 3, 4).requires_grad_();
  const Tensor filter = tensor({1, 2, 0, -1, 0, 3, 1, 2}, {.dtype = DType::kF32}).view(1, 1, 2, 4);
  Conv2d wide(1, 1, {2, 4}, {.padding = "same", .bias = false});
  const NoGradGuard no_grad;
  wide.weight.copy_(filter);
  const auto with_grad = [&] {
    const EnableGradGuard grad;
    return wide(x);
  };
  const Tensor y = with_grad();
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_EQ(values<int>(y), (std::vector<int>{27, 34, 30, 29, 55, 66, 58, 53, 6, 15, 29, 32}));
  y.backward(ones_like(y));
  EXPECT_EQ(values<int>(x.grad()), (std::vector<int>{3, 3, 2, 1, 6, 7, 8, 7, 6, 7, 8, 7}));

  Conv2d dilated(1, 1, 2, {.padding = "same", .dilation = {1, 2}, .bias = false});
  dilated.weight.copy_(filter.narrow(3, 0, 2));
  EXPECT_EQ(values<int>(dilated(x)),
            (std::vector<int>{17, 22, 28, 2, 37, 46, 52, 6, 18, 28, 31, 10}));

  const Tensor line = arange(6).to(DType::kF32).view(1, 1, 6);
  for (const bool same : {true, false}) {
    Conv1d layer(1, 1, 4, {.padding = same ? ConvPadding("same") : "valid", .bias = false});
    layer.weight.copy_(tensor({1, 2, -1, 3}, {.dtype = DType::kF32}).view(1, 1, 4));
    const std::vector<int> wanted =
        same ? std::vector<int>{5, 9, 14, 19, 6, 14} : std::vector<int>{9, 14, 19};
    EXPECT_EQ(values<int>(layer(line)), wanted);
  }
}

TEST(Convolutions, SayTheirPaddingByItsName) {
  // As numbers "same" would be 0.
  static_assert(!std::is_convertible_v<ConvPadding, IntPair>);
  EXPECT_EQ(Conv2d(3, 4, 2, {.padding = "same"}).str(),
            "Conv2d(3, 4, kernel_size=(2, 2), stride=(1, 1), padding=same)");
  EXPECT_EQ(Conv1d(3, 4, 2, {.padding = "valid"}).str(),
            "Conv1d(3, 4, kernel_size=(2,), stride=(1,), padding=valid)");
  EXPECT_EQ(Conv2d(3, 4, 2, {.padding = {1, 0}}).str(),
            "Conv2d(3, 4, kernel_size=(2, 2), stride=(1, 1), padding=(1, 0))");
  EXPECT_ERROR(Conv2d(3, 4, 2, {.padding = "full"}), kInvalidArgument,
               "padding is \"full\", wanted numbers, \"same\" or \"valid\"");
  EXPECT_ERROR(Conv2d(3, 4, 2, {.stride = 2, .padding = "same"}), kInvalidArgument,
               "Conv2d: padding \"same\" is for stride 1, the stride is 2; give numbers instead");
  EXPECT_ERROR(Conv1d(3, 4, 2, {.padding = {1, 2}}), kInvalidArgument,
               "Conv1d: padding is (1, 2), wanted one number");
}

TEST(Layers, TakeAnInputWithoutABatch) {
  struct Case {
    std::function<Tensor(const Tensor&)> layer;
    Shape input;
    const char* grad_fn;  // PyTorch's
  };
  Conv1d conv1d(2, 4, 3, {.padding = 1, .groups = 2});
  Conv2d conv2d(2, 4, 3, {.stride = 2});
  ConvTranspose2d transposed(2, 4, 3, {.stride = 2});
  MaxPool2d max2d(2);
  AvgPool2d avg2d(2);
  AdaptiveAvgPool2d mean(1);
  AdaptiveAvgPool2d adaptive_avg({3, 2});
  AdaptiveMaxPool2d adaptive_max({3, 2});
  AdaptiveMaxPool2d halves(4);
  MaxPool1d max1d(2);
  AvgPool1d avg1d(2);
  const Case cases[] = {
      {std::ref(conv1d), {2, 8}, "SqueezeBackward1"},
      {std::ref(conv2d), {2, 8, 8}, "SqueezeBackward1"},
      {std::ref(transposed), {2, 8, 8}, "SqueezeBackward1"},
      {std::ref(max2d), {2, 8, 8}, "MaxPool2DWithIndicesBackward0"},
      {std::ref(avg2d), {2, 8, 8}, "AvgPool2DBackward0"},
      {std::ref(mean), {2, 8, 8}, "MeanBackward1"},
      {std::ref(adaptive_avg), {2, 8, 8}, "AdaptiveAvgPool2DBackward0"},
      {std::ref(adaptive_max), {2, 8, 8}, "AdaptiveMaxPool2DBackward0"},
      {std::ref(halves), {2, 8, 8}, "AdaptiveMaxPool2DBackward0"},
      {std::ref(max1d), {2, 8}, "SqueezeBackward1"},
      {std::ref(avg1d), {2, 8}, "SqueezeBackward1"},
  };
  for (const Case& each : cases) {
    const Tensor alone = random_tensor(each.input).requires_grad_();
    const Tensor batch = alone.detach().unsqueeze(0).clone().requires_grad_();
    const Tensor got = each.layer(alone);
    const Tensor wanted = each.layer(batch);
    EXPECT_EQ(got.sizes(), wanted.squeeze(0).sizes()) << each.grad_fn;
    EXPECT_EQ(got.strides(), contiguous_strides(got.sizes())) << each.grad_fn;
    EXPECT_EQ(values<float>(got), values<float>(wanted)) << each.grad_fn;
    EXPECT_THAT(got.str(), testing::HasSubstr(std::string("grad_fn=<") + each.grad_fn + ">"));
    (got * got).sum().backward();
    (wanted * wanted).sum().backward();
    EXPECT_EQ(values<float>(alone.grad()), values<float>(batch.grad())) << each.grad_fn;
  }
}

TEST(MultiheadAttention, TakesAnInputWithoutABatch) {
  for (const bool batch_first : {false, true}) {
    MultiheadAttention attention(4, 2, {.batch_first = batch_first});
    const std::int64_t batch = batch_first ? 0 : 1;
    const Tensor q = random_tensor({5, 4});
    const Tensor k = random_tensor({6, 4});
    const Tensor hidden = tensor({false, false, true, false, false, false});
    const Tensor mask = random_tensor({2, 5, 6});
    const auto [got, shares] = attention(q, k, k, {.key_padding_mask = hidden, .attn_mask = mask});
    const auto [wanted, wanted_shares] =
        attention(q.unsqueeze(batch), k.unsqueeze(batch), k.unsqueeze(batch),
                  {.key_padding_mask = hidden.unsqueeze(0), .attn_mask = mask});
    EXPECT_EQ(got.sizes(), Shape({5, 4}));
    EXPECT_EQ(shares.sizes(), Shape({5, 6}));
    EXPECT_EQ(values<float>(got), values<float>(wanted));
    EXPECT_EQ(values<float>(shares), values<float>(wanted_shares));
    EXPECT_FALSE(attention(q, k, k, {.need_weights = false}).second.defined());
    EXPECT_EQ(attention(q, k, k, {.average_attn_weights = false}).second.sizes(), Shape({2, 5, 6}));
    EXPECT_ERROR(attention(q, k, k, {.key_padding_mask = hidden.unsqueeze(0)}), kShape,
                 "MultiheadAttention: key_padding_mask has shape [1, 6], wanted [6], as the query "
                 "has no batch");
  }
}

TEST(MultiheadAttention, PrintsAsPyTorchDoes) {
  EXPECT_EQ(MultiheadAttention(4, 2).str(),
            "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=4, "
            "out_features=4, bias=True)\n)");
}

TEST(Layers, DrawPyTorchsNumbers) {
  const parity::Arrays arrays("layers");
  manual_seed(123);
  EXPECT_EQ(values<float>(Dropout2d(0.3)(ones({4, 5, 2, 3}))), arrays.get<float>("dropout2d"));
  manual_seed(123);
  EXPECT_EQ(values<float>(Dropout1d(0.3)(ones({4, 5, 6}))), arrays.get<float>("Dropout1d"));
  manual_seed(123);
  EXPECT_EQ(values<float>(Dropout3d(0.3)(ones({4, 5, 2, 3, 2}))), arrays.get<float>("Dropout3d"));
  manual_seed(123);
  const auto alpha = values<double>(AlphaDropout(0.3)(ones({4, 50})));
  const auto wanted = arrays.get<float>("AlphaDropout");
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(alpha[i], wanted[i], 1e-6) << i;
  manual_seed(123);
  EXPECT_EQ(values<float>(Bilinear(3, 4, 2).weight), arrays.get<float>("bilinear.start"));
  manual_seed(123);
  EXPECT_EQ(values<float>(Embedding(5, 3, {.padding_idx = -2}).weight),
            arrays.get<float>("embedding.start"));
}

TEST(Layers, ActivationsWriteInPlaceIfAsked) {
  const Tensor x = tensor({-1.0, 2.0});
  EXPECT_EQ(values<float>(LeakyReLU({.negative_slope = 0.5})(x)), (std::vector<float>{-0.5, 2}));
  EXPECT_TRUE(Hardtanh({.min_val = -0.5, .inplace = true})(x).is_same(x));
  EXPECT_EQ(values<float>(x), (std::vector<float>{-0.5, 1}));
  EXPECT_EQ(Unflatten(-1, {2, -1})(zeros({3, 6})).sizes(), Shape({3, 2, 3}));
  EXPECT_EQ(values<float>(Softmax(0)(zeros({2}))), (std::vector<float>{0.5, 0.5}));
}

// PyTorch multiplies by a share of 0, too, and takes an axis of the same size as it is.
TEST(Upsample, BilinearShowsWhatIsNotFinite) {
  const auto resized = [](const Tensor& x, UpsampleOptions options) {
    options.mode = UpsampleMode::kBilinear;
    return values<float>(Upsample(options)(x.view({1, 1, 2, 2})));
  };
  const Tensor below = tensor({{1.0, 2.0}, {NAN, NAN}});
  for (const float y : resized(below, {.size = IntPair(1, 2), .align_corners = true})) {
    EXPECT_TRUE(std::isnan(y));
  }
  const auto whole = resized(below, {.size = IntPair(2, 2)});
  EXPECT_EQ(whole[0], 1);
  EXPECT_EQ(whole[1], 2);
  const Tensor x = tensor({{0.0, 1.0}, {2.0, 3.0}});
  EXPECT_EQ(resized(x, {.scale_factor = 1.3}), (std::vector<float>{0, 1, 2, 3}));
}

TEST(LayerErrors, SayWhatCameAndWhatWasWanted) {
  EXPECT_ERROR(Embedding(4, 2)(tensor({0, 4})), kIndex,
               "Embedding: num_embeddings is 4; embedding: element 1 of the index is 4, wanted a "
               "row in [0, 4)");
  EXPECT_ERROR(Linear(4, 2)(zeros({2, 3})), kShape,
               "Linear: in_features is 4, but the input of shape [2, 3] has 3 features");
  EXPECT_ERROR(Bilinear(4, 3, 2)(zeros({2, 4}), zeros({2, 5})), kShape,
               "Bilinear: in2_features is 3, but the input of shape [2, 5] has 5 features");
  EXPECT_ERROR(Conv2d(3, 4, 1)(zeros({1, 2, 5, 5})), kShape,
               "Conv2d: in_channels is 3, but the input of shape [1, 2, 5, 5] has 2 channels");
  EXPECT_ERROR(Conv1d(3, 4, 1)(zeros({1, 2, 5})), kShape,
               "Conv1d: in_channels is 3, but the input of shape [1, 2, 5] has 2 channels");
  EXPECT_ERROR(
      ConvTranspose2d(3, 4, 1)(zeros({1, 2, 5, 5})), kShape,
      "ConvTranspose2d: in_channels is 3, but the input of shape [1, 2, 5, 5] has 2 channels");
  EXPECT_ERROR(PReLU({.num_parameters = 3})(zeros({1, 2})), kShape,
               "PReLU: num_parameters is 3, but the input of shape [1, 2] has 2 channels");
  EXPECT_ERROR(Embedding(4, 2)(zeros({2})), kDType,
               "embedding: the index is float32, wanted int64");
  EXPECT_ERROR(Embedding(4, 2, {.padding_idx = 4}), kInvalidArgument,
               "Embedding: padding_idx is 4, wanted one of 4 rows");
  EXPECT_ERROR(
      AvgPool2d(3)(zeros({1, 1, 2, 2})), kShape,
      "avg_pool2d: a window of 3 x 3 does not fit into the input [1, 1, 2, 2] with padding "
      "(0, 0)");
  EXPECT_ERROR(AvgPool2d(3)(zeros({2, 2})), kShape,
               "avg_pool2d: the input has shape [2, 2], wanted [N, C, H, W] or [C, H, W]");
  EXPECT_ERROR(Upsample({}), kInvalidArgument,
               "Upsample: neither was given, wanted either size or scale_factor");
  EXPECT_ERROR(ConvTranspose2d(2, 2, 3, {.output_padding = 1})(zeros({1, 2, 4, 4})),
               kInvalidArgument,
               "conv_transpose2d: output_padding is (1, 1), wanted at least 0 and less than the "
               "stride (1, 1) or the dilation (1, 1)");
  EXPECT_ERROR(
      ConvTranspose2d(2, 2, 3)(zeros({1, 2, 0, 4})), kShape,
      "conv_transpose2d: the input has shape [1, 2, 0, 4], wanted [N, C, H, W] or [C, H, "
      "W] with at least 1 pixel, and the weight [2, 2, 3, 3], wanted [C, O / groups, kh, kw]");
  EXPECT_ERROR(Conv1d(2, 2, 3)(zeros({4})), kShape,
               "conv1d: the input has shape [4], wanted [N, C, L] or [C, L]");
  EXPECT_ERROR(Conv2d(3, 2, 3)(zeros({2, 4, 4})), kShape,
               "Conv2d: in_channels is 3, but the input of shape [2, 4, 4] has 2 channels");
  EXPECT_ERROR(Upsample({.scale_factor = 2})(zeros({2, 4, 4})), kShape,
               "upsample: the input has shape [2, 4, 4], wanted [N, C, H, W]");
  EXPECT_ERROR(MultiheadAttention(6, 4), kInvalidArgument,
               "MultiheadAttention: embed_dim is 6, wanted a positive multiple of num_heads = 4");
  EXPECT_ERROR(F::scaled_dot_product_attention(zeros({2, 3}), zeros({4, 2}), zeros({4, 2})), kShape,
               "scaled_dot_product_attention: query, key and value have shapes [2, 3], [4, 2] and "
               "[4, 2], wanted [..., L, E], [..., S, E] and [..., S, V]");
  const Tensor x = zeros({1, 2, 4});
  EXPECT_ERROR(F::scaled_dot_product_attention(x, x, x, {.attn_mask = zeros({5, 2})}), kShape,
               "scaled_dot_product_attention: attn_mask has shape [5, 2], wanted [1, 2, 2] or one "
               "that is broadcast to it: a row for each query, a column for each key");
  EXPECT_ERROR(F::scaled_dot_product_attention(x, x, x, {.attn_mask = zeros({3, 2, 2})}), kShape,
               "scaled_dot_product_attention: attn_mask has shape [3, 2, 2], wanted [1, 2, 2] or "
               "one that is broadcast to it: a row for each query, a column for each key");
  EXPECT_ERROR(F::scaled_dot_product_attention(
                   x, x, x, {.attn_mask = zeros({2, 2}, {.dtype = DType::kI64})}),
               kDType, "scaled_dot_product_attention: attn_mask is int64, wanted bool or float32");
  EXPECT_ERROR(MultiheadAttention(4, 2)(x, x, x, {.attn_mask = zeros({2, 2})}), kShape,
               "MultiheadAttention: attn_mask has shape [2, 2], wanted [1, 1], or [4, 1, 1] for "
               "masks of each head");
  EXPECT_ERROR(Hardtanh({.min_val = 1, .max_val = 0}), kInvalidArgument,
               "Hardtanh: min_val is 1 and max_val 0, wanted a smaller min_val");
}

}  // namespace
}  // namespace dl::nn
