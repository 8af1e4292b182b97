// Networks beside torchvision's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "nn/layers/conv/conv.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/resnet.h"
#include "tests/nn/support.h"

namespace dl::nn::models {
namespace {

const parity::Arrays& torchvision() {
  static const parity::Arrays arrays("networks");
  return arrays;
}

void expect_near(const Tensor& got, const std::string& array, float tolerance) {
  const std::vector<float> values = dl::values<float>(got.detach().contiguous());
  const auto wanted = torchvision().get<float>(array);
  ASSERT_EQ(values.size(), wanted.size()) << array;
  float largest = 0;
  for (const float number : wanted) largest = std::max(largest, std::abs(number));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(values[i], wanted[i], tolerance * largest) << array << ", element " << i;
  }
}

// Compares a model that was made after manual_seed(123). First its submodule `features` runs once
// in training mode. `tolerance`: of the largest number of an array.
void expect_torchvisions(Module& model, const std::string& name, std::string_view features,
                         float tolerance = 1e-3F) {
  const auto digests = torchvision().get<std::uint8_t>(name + ".sha256");
  std::string keys;
  std::size_t at = 0;
  for (const NamedTensor& entry : model.state_dict()) {
    keys += (keys.empty() ? "" : "\n") + entry.name;
    const std::vector<std::uint8_t> digest = sha256_of(entry.tensor);
    ASSERT_LE(at + digest.size(), digests.size());
    EXPECT_TRUE(std::ranges::equal(digest, std::span(digests).subspan(at, digest.size())))
        << entry.name;
    at += digest.size();
  }
  EXPECT_EQ(keys, text_of(torchvision(), name + ".keys"));

  const Tensor input = tensor_of(torchvision(), "input");
  {
    const NoGradGuard no_grad;
    model.get_submodule(features)(input);
  }
  model.eval();
  const Tensor logits = model(input);
  mean(logits * logits).backward();
  expect_near(logits, name + ".logits", tolerance);
  expect_near(model.parameters().front().grad(), name + ".first_gradient", tolerance);
  expect_near(model.parameters().back().grad(), name + ".last_gradient", tolerance);
}

TEST(DenseNet, IsTorchvisionsDenseNet121) {
  manual_seed(123);
  DenseNet model;
  EXPECT_EQ(model.count_parameters(), 7'978'856);
  expect_torchvisions(model, "densenet121", "features");
}

TEST(DenseNet, TakesOtherSizes) {
  DenseNet model({.growth_rate = 4,
                  .block_config = {1, 2, 1, 1},
                  .num_init_features = 8,
                  .bn_size = 2,
                  .drop_rate = 0.5,
                  .num_classes = 10});
  EXPECT_EQ(model(zeros({2, 3, 32, 32})).sizes(), Shape({2, 10}));
  EXPECT_ERROR(DenseNet({.block_config = {6, 0, 24, 16}}), kInvalidArgument,
               "DenseNet: growth_rate is 32, num_init_features 64, bn_size 4, num_classes 1000, "
               "the smallest block 0; wanted at least 1 of each");
  EXPECT_ERROR(DenseNet({.drop_rate = 1.5}), kInvalidArgument,
               "DenseNet: drop_rate is 1.5, wanted 0 to 1");
}

TEST(EfficientNet, IsTorchvisionsB0) {
  manual_seed(123);
  EfficientNet model({.stochastic_depth_prob = 0});
  EXPECT_EQ(model.count_parameters(), 5'288'548);
  expect_torchvisions(model, "efficientnet_b0", "features");
}

TEST(EfficientNet, HasThePublishedParameters) {
  EXPECT_EQ(EfficientNet({.size = 2}).count_parameters(), 9'109'994);
  EXPECT_EQ(EfficientNet({.size = 7}).count_parameters(), 66'347'960);
}

// The later a block, the more often it is left out.
TEST(EfficientNet, LeavesOutBlocksWhileItTrainsOnly) {
  manual_seed(5);
  EfficientNet model({.stochastic_depth_prob = 1, .num_classes = 4});
  const NoGradGuard no_grad;
  const Tensor input = tensor_of(torchvision(), "input");
  const auto features = [&] { return model.get_submodule("features")(input).clone(); };
  const Tensor first = features();
  const Tensor second = features();
  EXPECT_GT(max(abs(first - second)).item<float>(), 0);
  model.eval();
  EXPECT_EQ(max(abs(features() - features())).item<float>(), 0);
}

TEST(ResNet, IsTorchvisionsResNet18) {
  manual_seed(123);
  ResNet model;
  EXPECT_EQ(model.count_parameters(), 11'689'512);
  expect_torchvisions(model, "resnet18", "");
}

TEST(ResNet, IsTorchvisionsResNet50) {
  manual_seed(123);
  ResNet model({.depth = 50});
  EXPECT_EQ(model.count_parameters(), 25'557'032);
  expect_torchvisions(model, "resnet50", "", 4e-3F);  // 2 x 2 x 2 numbers a channel normalise it
}

// A block's last normalisation is computed with what follows, unless a hook looks at it.
TEST(ResNet, FusesTheEndsOfBlocksWithTheSameBits) {
  const auto run = [](std::string_view watched) {
    manual_seed(4);
    ResNet model({.depth = 18, .num_classes = 3, .small_images = true});
    HookHandle handle;
    if (!watched.empty()) {
      handle = model.get_submodule(watched).register_forward_hook(
          [](Module&, const Tensor&, const Tensor& y) { return y; });
    }
    const Tensor y = model(randn({2, 3, 8, 8}));
    sum(y * y).backward();
    std::vector<Tensor> results = {y.detach()};
    for (const NamedTensor& each : model.named_parameters()) results.push_back(each.tensor.grad());
    for (const NamedTensor& each : model.named_buffers()) results.push_back(each.tensor);
    return results;
  };
  const std::vector<Tensor> fused = run("");
  for (const char* const watched : {"layer1.0.bn2", "layer2.0.bn2"}) {
    const std::vector<Tensor> single = run(watched);
    for (std::size_t i = 0; i < fused.size(); ++i) EXPECT_TRUE(fused[i].equal(single[i])) << i;
  }
}

TEST(ResNet, HasThePublishedParameters) {
  EXPECT_EQ(ResNet({.depth = 34}).count_parameters(), 21'797'672);
  EXPECT_EQ(ResNet({.depth = 101}).count_parameters(), 44'549'160);
  EXPECT_EQ(ResNet({.depth = 152}).count_parameters(), 60'192'808);
}

TEST(ResNet, KeepsSmallImagesLarger) {
  ResNet model({.num_classes = 10, .small_images = true});
  EXPECT_EQ(model.count_parameters(), 11'173'962);
  const NoGradGuard no_grad;
  EXPECT_EQ(model(zeros({2, 3, 32, 32})).sizes(), Shape({2, 10}));
  EXPECT_EQ(model.get_submodule("maxpool").str(), "Identity()");
}

// A replaced layer is called in place of the first one.
TEST(ResNet, CallsALayerThatReplacesItsOwn) {
  ResNet model;
  model.replace_module("layer1.0.conv2", Conv2d(64, 64, 3, {.padding = 1}));
  model.eval();
  const NoGradGuard no_grad;
  EXPECT_EQ(model(zeros({1, 3, 32, 32})).sizes(), Shape({1, 1000}));
}

TEST(ResNet, RefusesWhatThereIsNot) {
  EXPECT_ERROR(ResNet({.depth = 20}), kInvalidArgument,
               "ResNet: the depth is 20, wanted 18, 34, 50, 101 or 152");
  EXPECT_ERROR(ResNet({.num_classes = 0}), kInvalidArgument,
               "ResNet: num_classes is 0, wanted at least 1");
}

TEST(EfficientNet, RefusesWhatThereIsNot) {
  EXPECT_ERROR(EfficientNet({.size = 8}), kInvalidArgument,
               "EfficientNet: the size is 8, wanted 0 to 7");
  EXPECT_ERROR(EfficientNet({.stochastic_depth_prob = -1}), kInvalidArgument,
               "EfficientNet: stochastic_depth_prob is -1, wanted 0 to 1");
  EXPECT_ERROR(EfficientNet({.num_classes = 0}), kInvalidArgument,
               "EfficientNet: num_classes is 0, wanted at least 1");
}

}  // namespace
}  // namespace dl::nn::models
