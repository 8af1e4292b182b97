// Networks beside torchvision's and Hugging Face's: their initial values and first steps.
#include <gtest/gtest.h>

#include <string>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/ops/index/index.h"
#include "core/random/tensor_random.h"
#include "nn/functional/functional.h"
#include "nn/models/mobilenet.h"
#include "nn/models/sequence/gpt2.h"
#include "nn/models/sequence/lstm_language_model.h"
#include "nn/models/sequence/vision_transformer.h"
#include "nn/models/vgg.h"
#include "nn/module/init.h"
#include "tests/nn/first_steps.h"

namespace dl::nn::models {
namespace {

struct Training {
  DType dtype = DType::kF64;
  double lr = 0.1;
  bool evaluate = false;
  double share = 1e-9;
  double loss_share = 1e-9;
};
// Batch norm of few numbers magnifies rounding from step to step.
constexpr Training kBatchNorm{.lr = 0.01, .evaluate = true, .share = 1e-8, .loss_share = 1e-8};

// Of a model of ten classes that was made after manual_seed(123).
void expect_torchvisions(Module& model, const parity::Arrays& arrays, const std::string& name,
                         const Training& with = {}) {
  expect_initial_values(arrays, name, model);
  model.to(with.dtype);
  const Tensor x = randn({4, 3, 32, 32}).to(with.dtype);
  const Tensor y = randint(0, 10, {4});
  expect_first_steps(arrays, name, model,
                     {.output = [&] { return model(x); },
                      .loss = [&](const Tensor& z) { return functional::cross_entropy(z, y); },
                      .lr = with.lr,
                      .evaluate = with.evaluate,
                      .share = with.share,
                      .loss_share = with.loss_share});
}

template <typename Model, typename Options>
std::int64_t parameters_of(const Options& options) {
  const init::NoInitGuard no_init;
  return Model(options).count_parameters();
}

const parity::Arrays& mobile_networks() {
  static const parity::Arrays arrays("mobile_networks");
  return arrays;
}

TEST(VGG, IsTorchvisions) {
  manual_seed(123);
  VGG model({.depth = 11, .num_classes = 10, .dropout = 0.25});
  model.get_parameter("classifier.0.weight").requires_grad_(false);  // most of the memory
  expect_torchvisions(model, mobile_networks(), "vgg11",
                      {.dtype = DType::kF32, .lr = 0.01, .share = 1e-5, .loss_share = 1e-3});
}

TEST(VGG, WithBatchNormHasTorchvisionsNames) {
  const init::NoInitGuard no_init;
  EXPECT_EQ(keys_of(VGG({.depth = 16, .batch_norm = true})),
            text_of(mobile_networks(), "vgg16_bn.keys"));
}

TEST(VGG, HasThePublishedParameters) {
  const auto count = [](int depth, bool batch_norm) {
    return parameters_of<VGG>(VGGOptions{.depth = depth, .batch_norm = batch_norm});
  };
  EXPECT_EQ(count(11, false), 132'863'336);
  EXPECT_EQ(count(13, false), 133'047'848);
  EXPECT_EQ(count(16, false), 138'357'544);
  EXPECT_EQ(count(19, false), 143'667'240);
  EXPECT_EQ(count(16, true), 138'365'992);
}

TEST(VGG, RefusesWhatThereIsNot) {
  EXPECT_ERROR(VGG({.depth = 12}), kInvalidArgument,
               "VGG: the depth is 12, wanted 11, 13, 16 or 19");
  EXPECT_ERROR(VGG({.num_classes = 0}), kInvalidArgument,
               "VGG: num_classes is 0, wanted at least 1");
}

TEST(MobileNetV2, IsTorchvisions) {
  manual_seed(123);
  MobileNetV2 model({.num_classes = 10});
  expect_torchvisions(model, mobile_networks(), "mobilenet_v2", kBatchNorm);
  EXPECT_EQ(parameters_of<MobileNetV2>(MobileNetV2Options{}), 3'504'872);
}

TEST(MobileNetV2, OfOtherWidthsIsTorchvisions) {
  manual_seed(123);
  MobileNetV2 model({.width_mult = 0.3, .dropout = 0, .num_classes = 10});
  expect_torchvisions(model, mobile_networks(), "mobilenet_v2_narrow", kBatchNorm);
}

TEST(MobileNetV3, IsTorchvisions) {
  manual_seed(123);
  MobileNetV3 large({.num_classes = 10});
  expect_torchvisions(large, mobile_networks(), "mobilenet_v3_large", kBatchNorm);
  manual_seed(123);
  MobileNetV3 small({.small = true, .num_classes = 10});
  expect_torchvisions(small, mobile_networks(), "mobilenet_v3_small", kBatchNorm);
  EXPECT_EQ(parameters_of<MobileNetV3>(MobileNetV3Options{}), 5'483'032);
  EXPECT_EQ(parameters_of<MobileNetV3>(MobileNetV3Options{.small = true}), 2'542'856);
}

TEST(MobileNet, RefusesWhatThereIsNot) {
  EXPECT_ERROR(MobileNetV2({.width_mult = 0}), kInvalidArgument,
               "MobileNetV2: width_mult is 0, wanted more than 0");
  EXPECT_ERROR(MobileNetV3({.num_classes = 0}), kInvalidArgument,
               "MobileNetV3: num_classes is 0, wanted at least 1");
}

TEST(VisionTransformer, IsTorchvisions) {
  manual_seed(123);
  VisionTransformer model({.image_size = 32,
                           .patch_size = 8,
                           .num_layers = 3,
                           .num_heads = 4,
                           .hidden_dim = 32,
                           .mlp_dim = 48,
                           .dropout = 0.1,
                           .attention_dropout = 0.2,
                           .num_classes = 10});
  expect_torchvisions(model, parity::Arrays("vision_transformer"), "vit");
}

TEST(VisionTransformer, HasThePublishedParameters) {
  const auto count = [](const char* name) {
    return parameters_of<VisionTransformer>(vit_options(name));
  };
  EXPECT_EQ(count("b_16"), 86'567'656);
  EXPECT_EQ(count("b_32"), 88'224'232);
  EXPECT_EQ(count("l_16"), 304'326'632);
  EXPECT_EQ(count("l_32"), 306'535'400);
  // h_14 of larger images
  VisionTransformerOptions huge = vit_options("h_14");
  EXPECT_EQ(parameters_of<VisionTransformer>(huge), 632'045'800);
  huge.image_size = 518;
  EXPECT_EQ(parameters_of<VisionTransformer>(huge), 633'470'440);
}

TEST(VisionTransformer, RefusesWhatThereIsNot) {
  EXPECT_ERROR(vit_options("b_8"), kInvalidArgument,
               "vit_options: the name is \"b_8\", wanted b_16, b_32, l_16, l_32 or h_14");
  EXPECT_ERROR(VisionTransformer({.image_size = 30}), kInvalidArgument,
               "VisionTransformer: image_size is 30, wanted a multiple of patch_size = 16");
  EXPECT_ERROR(VisionTransformer({.attention_dropout = 1.5}), kInvalidArgument,
               "VisionTransformer: attention_dropout is 1.5, wanted 0 to 1");
  EXPECT_ERROR(VisionTransformer({.num_layers = 0}), kInvalidArgument,
               "VisionTransformer: image_size is 224, patch_size 16, num_layers 0, num_heads 12, "
               "hidden_dim 768, mlp_dim 3072, num_classes 1000; wanted at least 1 of each");
  VisionTransformer small(
      {.image_size = 4, .patch_size = 2, .num_layers = 1, .num_heads = 1, .hidden_dim = 4});
  EXPECT_ERROR(small(zeros({1, 3, 4, 8})), kShape,
               "VisionTransformer: the input has shape [1, 3, 4, 8], wanted [N, 3, 4, 4]");
}

const GPT2Options kSmallGPT2{
    .vocab_size = 70, .n_positions = 16, .n_embd = 32, .n_layer = 3, .n_head = 4};

TEST(GPT2, IsTransformers) {
  manual_seed(123);
  GPT2LMHeadModel model(kSmallGPT2);
  const parity::Arrays arrays("gpt2");
  expect_initial_values(arrays, "gpt2", model);
  model.to(DType::kF64);
  const Tensor words = randint(0, 70, {3, 11});
  const auto loss = [&](const Tensor& logits) {
    return functional::cross_entropy(logits.slice(1, 0, 10).flatten(0, 1),
                                     words.slice(1, 1, 11).flatten());
  };
  expect_first_steps(arrays, "gpt2", model, {.output = [&] { return model(words); }, .loss = loss});
}

TEST(GPT2, SeesNoLaterWord) {
  GPT2LMHeadModel model(kSmallGPT2);
  model.eval();
  const NoGradGuard no_grad;
  const Tensor words = randint(0, 70, {9});
  const Tensor logits = model(words);
  EXPECT_EQ(logits.sizes(), Shape({9, 70}));
  parity::expect_near_share(model(words.slice(0, 0, 5)), values<double>(logits.slice(0, 0, 5)),
                            1e-5, "the first words");
}

TEST(GPT2, StaysInTheDTypeOfAutocast) {
  GPT2LMHeadModel model(kSmallGPT2);
  model.eval();
  const Tensor words = randint(0, 70, {2, 9});
  const autocast cast(DeviceType::kCPU, {.dtype = DType::kBF16});
  Module& projection = model.get_submodule("transformer.h.0.attn.c_attn");
  EXPECT_EQ(projection(ones({2, 32})).dtype(), DType::kBF16);
  EXPECT_EQ(model(words).dtype(), DType::kBF16);
}

// save_pretrained() writes the shared weight once.
TEST(GPT2, LoadsAStateWithoutItsLastLayer) {
  GPT2LMHeadModel from(kSmallGPT2);
  GPT2LMHeadModel to(kSmallGPT2);
  StateDict state = from.state_dict();
  EXPECT_EQ(state.back().name, "lm_head.weight");
  state.pop_back();
  to.load_state_dict(state);
  EXPECT_EQ(values<float>(to.lm_head.weight.detach()), values<float>(from.lm_head.weight.detach()));
  EXPECT_TRUE(to.lm_head.weight.is_same(to.transformer.wte.weight));
}

TEST(GPT2, RefusesWhatThereIsNot) {
  EXPECT_ERROR(
      gpt2_options("gpt3"), kInvalidArgument,
      "gpt2_options: the name is \"gpt3\", wanted gpt2, gpt2-medium, gpt2-large or gpt2-xl");
  EXPECT_ERROR(GPT2Model({.n_embd = 30, .n_head = 4}), kInvalidArgument,
               "GPT2: n_embd is 30, wanted a multiple of n_head = 4");
  EXPECT_ERROR(GPT2Model({.n_layer = 0}), kInvalidArgument,
               "GPT2: vocab_size is 50257, n_positions 1024, n_embd 768, n_layer 0, n_head 12; "
               "wanted at least 1 of each, and of n_inner");
  GPT2Model model(kSmallGPT2);
  EXPECT_ERROR(model(zeros({1, 17}, {.dtype = DType::kI64})), kShape,
               "GPT2: the words have shape [1, 17], but n_positions is 16; give at most so many at "
               "a time");
  EXPECT_ERROR(model(zeros({1, 2, 3}, {.dtype = DType::kI64})), kShape,
               "GPT2: the words have shape [1, 2, 3], wanted [N, L] or [L]");
}

TEST(GPT2, HasThePublishedParameters) {
  const auto count = [](const char* name) {
    return parameters_of<GPT2LMHeadModel>(gpt2_options(name));
  };
  EXPECT_EQ(count("gpt2"), 124'439'808);
  EXPECT_EQ(count("gpt2-medium"), 354'823'168);
  EXPECT_EQ(count("gpt2-large"), 774'030'080);
  EXPECT_EQ(count("gpt2-xl"), 1'557'611'200);
}

TEST(LSTMLanguageModel, IsPyTorchs) {
  for (const bool tied : {false, true}) {
    manual_seed(123);
    LSTMLanguageModel model({.ntoken = 40,
                             .ninp = tied ? 12 : 9,
                             .nhid = 12,
                             .nlayers = 2,
                             .dropout = 0.2,
                             .tie_weights = tied});
    const std::string name = tied ? "tied" : "plain";
    const parity::Arrays arrays("lstm_language_model");
    expect_initial_values(arrays, name, model);
    model.to(DType::kF64);
    const Tensor words = randint(0, 40, {8, 3});
    // The second half goes on from the first one's state.
    const auto output = [&] {
      const auto [first, state] = model(words.slice(0, 0, 4));
      return cat({first, model(words.slice(0, 4, 8), state).first});
    };
    const auto loss = [&](const Tensor& logits) {
      return functional::cross_entropy(logits.slice(0, 0, 7).flatten(0, 1),
                                       words.slice(0, 1, 8).flatten());
    };
    expect_first_steps(arrays, name, model, {.output = output, .loss = loss});
  }
}

TEST(LSTMLanguageModel, RefusesWhatThereIsNot) {
  EXPECT_ERROR(LSTMLanguageModel({.ninp = 8, .nhid = 9, .tie_weights = true}), kInvalidArgument,
               "LSTMLanguageModel: nhid is 9 and ninp 8; with tie_weights they must be equal");
}

TEST(LSTMLanguageModel, TakesBatchesFirst) {
  LSTMLanguageModel model(
      {.ntoken = 20, .ninp = 4, .nhid = 5, .nlayers = 1, .dropout = 0, .batch_first = true});
  const auto [logits, state] = model(randint(0, 20, {3, 7}));
  EXPECT_EQ(logits.sizes(), Shape({3, 7, 20}));
  EXPECT_EQ(state.c.sizes(), Shape({1, 3, 5}));
}

}  // namespace
}  // namespace dl::nn::models
