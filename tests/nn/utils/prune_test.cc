#include "nn/utils/prune/prune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/support.h"

namespace dl::nn::utils::prune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const parity::Arrays& prunings() {
  static const parity::Arrays kArrays("pruning");
  return kArrays;
}

// Whole numbers, divided.
Tensor fractions(const std::string& name, float divisor) {
  Shape shape;
  for (const std::size_t size : prunings().shape(name)) {
    shape.push_back(static_cast<std::int64_t>(size));
  }
  const Tensor result = empty(shape);
  const std::vector<std::int8_t> numbers = prunings().get<std::int8_t>(name);
  std::ranges::transform(numbers, result.data<float>(),
                         [&](std::int8_t number) { return static_cast<float>(number) / divisor; });
  return result;
}
Tensor small() {
  return fractions("small", 10);
}
Tensor wide() {
  return fractions("wide", 4);
}

class OneWeight : public Module {
 public:
  explicit OneWeight(const Tensor& value) { register_parameter("weight", value); }
};

std::vector<std::uint8_t> mask_in(Module& module) {
  return values<std::uint8_t>(module.named_buffers().at(0).tensor);
}

// Prunes a weight of these values, and compares the mask with PyTorch's.
template <typename Prune>
void expect_mask(const std::string& name, const Tensor& weight, const Prune& prune) {
  OneWeight module(weight);
  manual_seed(123);
  prune(module);
  EXPECT_EQ(mask_in(module), prunings().get<std::uint8_t>(name)) << name;
}

std::vector<std::string> names_in(const StateDict& state) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : state) names.push_back(entry.name);
  return names;
}

TEST(Prune, MasksOfTheSmallestAreThoseOfPyTorch) {
  expect_mask("l1_share", small(), [](Module& m) { l1_unstructured(m, "weight", 0.3); });
  expect_mask("l1_count", small(), [](Module& m) { l1_unstructured(m, "weight", 7); });
  expect_mask("l1_none", small(), [](Module& m) { l1_unstructured(m, "weight", 0); });
  expect_mask("l1_few_of_many", wide(), [](Module& m) { l1_unstructured(m, "weight", 15); });
  expect_mask("l1_half_up", wide()[0].narrow(0, 0, 5).clone(),
              [](Module& m) { l1_unstructured(m, "weight", 0.5); });
  expect_mask("l1_equal", ones({200}), [](Module& m) { l1_unstructured(m, "weight", 0.4); });
  expect_mask("l1_thrice", small(), [](Module& m) {
    for (int i = 0; i < 3; ++i) l1_unstructured(m, "weight", 0.2);
  });
  expect_mask("l1_scores", small(),
              [](Module& m) { l1_unstructured(m, "weight", 0.5, fractions("scores", 8)); });
}

TEST(Prune, RandomMasksAreThoseOfPyTorch) {
  expect_mask("random_share", small(), [](Module& m) { random_unstructured(m, "weight", 0.4); });
  expect_mask("random_twice", wide(), [](Module& m) {
    random_unstructured(random_unstructured(m, "weight", 0.4), "weight", 33);
  });
  expect_mask("rows_twice", wide(), [](Module& m) {
    random_structured(random_structured(m, "weight", 0.3, 0), "weight", 4, 0);
  });
  expect_mask("rows_none", wide(), [](Module& m) {
    random_structured(random_structured(m, "weight", 0, 1), "weight", 0.25, 1);
  });
}

TEST(Prune, MasksOfChannelsAreThoseOfPyTorch) {
  for (const auto& [n, text] :
       {std::pair{1.0, "1"}, {2.0, "2"}, {0.5, "0.5"}, {kInfinity, "inf"}}) {
    for (const int dim : {0, 1, -1}) {
      expect_mask("ln_" + std::string(text) + "_" + std::to_string(dim), small(),
                  [&, n = n](Module& m) { ln_structured(m, "weight", 0.4, n, dim); });
    }
  }
  expect_mask("ln_twice", small(), [](Module& m) {
    ln_structured(ln_structured(m, "weight", 3, 2, 0), "weight", 0.5, 1, 0);
  });
  expect_mask("ln_both", small(), [](Module& m) {
    ln_structured(ln_structured(m, "weight", 3, 2, 0), "weight", 0.5, 1, 1);
  });
  expect_mask("ln_scores", small(),
              [](Module& m) { ln_structured(m, "weight", 0.5, 1, 1, fractions("scores", 8)); });
  expect_mask("ln_equal", ones({40, 3}), [](Module& m) { ln_structured(m, "weight", 0.3, 2, 0); });
}

TEST(Prune, MethodsCombineTheirMasks) {
  const Tensor given = tensor(prunings().get<std::uint8_t>("given")).view(small().sizes());
  expect_mask("mixed", small(), [&](Module& m) {
    ln_structured(m, "weight", 0.25, 2, 0);
    l1_unstructured(m, "weight", 0.25);
    random_unstructured(m, "weight", 20);
    custom_from_mask(m, "weight", given);
    identity(m, "weight");
  });
}

TEST(Prune, SeveralParametersArePrunedAsOne) {
  for (const auto& [method, name] : {std::pair{Unstructured::kL1, "L1Unstructured"},
                                     {Unstructured::kRandom, "RandomUnstructured"}}) {
    OneWeight first(small());
    OneWeight second(wide());
    manual_seed(123);
    l1_unstructured(second, "weight", 0.1);
    const ParameterOf both[] = {{first, "weight"}, {second, "weight"}};
    global_unstructured(both, method, 0.35);
    const std::string text = name;
    EXPECT_EQ(mask_in(first), prunings().get<std::uint8_t>(text + "_0")) << text;
    EXPECT_EQ(mask_in(second), prunings().get<std::uint8_t>(text + "_1")) << text;
  }
}

TEST(Prune, TheStateHasPyTorchsNamesAndRemoveEndsIt) {
  Conv2d conv(2, 4, 3);
  Sequential model{{"conv", std::move(conv)}};
  auto& layer = dynamic_cast<Conv2d&>(model.get_submodule("conv"));
  const Tensor weight = layer.weight;
  layer.weight.requires_grad_(false);
  EXPECT_FALSE(is_pruned(model));
  l1_unstructured(layer, "weight", 0.5);
  EXPECT_TRUE(is_pruned(model));
  const std::vector<std::string> pruned = {"conv.bias", "conv.weight_orig", "conv.weight_mask"};
  EXPECT_EQ(names_in(model.state_dict()), pruned);
  EXPECT_EQ(names_in(model.named_parameters()),
            (std::vector<std::string>{"conv.bias", "conv.weight_orig"}));
  EXPECT_TRUE(layer.get_parameter("weight_orig").is_same(weight));
  EXPECT_FALSE(layer.get_parameter("weight_orig").requires_grad());
  EXPECT_FALSE(layer.weight.is_same(weight));

  // A state loads, and the next call computes with it.
  Sequential other{{"conv", Conv2d(2, 4, 3)}};
  auto& copy = dynamic_cast<Conv2d&>(other.get_submodule("conv"));
  identity(copy, "weight");
  other.load_state_dict(model.state_dict());
  const Tensor x = rand({1, 2, 5, 5});
  EXPECT_EQ(values<float>(other(x)), values<float>(model(x)));

  const std::vector<float> masked = values<float>(layer.weight);
  EXPECT_EQ(std::ranges::count(masked, 0.0F), 36);
  EXPECT_ERROR(layer.register_parameter("weight", ones({1})), kInvalidArgument,
               "Conv2d: parameter \"weight\": the name is already registered");
  remove(layer, "weight");
  EXPECT_FALSE(is_pruned(model));
  EXPECT_EQ(names_in(model.state_dict()), (std::vector<std::string>{"conv.bias", "conv.weight"}));
  EXPECT_TRUE(layer.weight.is_same(weight));
  EXPECT_EQ(values<float>(layer.weight), masked);
}

// The network of the arrays, pruned.
Sequential pruned_network() {
  manual_seed(123);
  Sequential model{Linear(6, 5), ReLU(), Linear(5, 3)};
  l1_unstructured(model.get_submodule("0"), "weight", 0.4);
  ln_structured(model.get_submodule("2"), "weight", 2, 1, 1);
  return model;
}

template <typename Step>
void expect_pytorchs_training(Sequential& model, const Tensor& x, Step&& step) {
  const Tensor y = tensor({0, 1, 2, 0, 1, 2, 0, 1});
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(step(x, y).template item<double>());
  expect_near(tensor_of(prunings(), "losses"), losses, 1e-6);
  for (const std::string layer : {"0", "2"}) {
    expect_near(model.get_parameter(layer + ".weight_orig").detach(),
                values<double>(tensor_of(prunings(), "trained_" + layer)), 1e-6);
  }
}

TEST(Prune, TrainingGoesOnWithTheMasks) {
  Sequential model = pruned_network();
  optim::SGD optimizer(model.parameters(), {.lr = 0.2, .momentum = 0.9});
  const Tensor x = rand({8, 6});
  const auto step = [&](const Tensor& images, const Tensor& labels) {
    optimizer.zero_grad();
    const Tensor loss = functional::cross_entropy(model(images), labels);
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  expect_pytorchs_training(model, x, step);
}

TEST(Prune, AStepWithMasksIsRepeatedByATape) {
  Sequential model = pruned_network();
  optim::SGD optimizer(model.parameters(), {.lr = 0.2, .momentum = 0.9});
  const Tensor x = rand({8, 6});
  auto step = compile(
      [&](const Tensor& images, const Tensor& labels) {
        optimizer.zero_grad();
        const Tensor loss = functional::cross_entropy(model(images), labels);
        loss.backward();
        optimizer.step();
        return loss;
      },
      {.whole = true, .checks = 1});
  expect_pytorchs_training(model, x, step);
  EXPECT_GT(step.summary().replays, 0);
}

TEST(Prune, APrunedModuleCanBeMoved) {
  Linear layer(3, 2);
  l1_unstructured(layer, "weight", 3);
  Linear moved = std::move(layer);
  {
    const NoGradGuard no_grad;
    moved.get_parameter("weight_orig").fill_(2);
    moved.get_parameter("bias").zero_();
  }
  EXPECT_EQ(values<float>(moved(ones({1, 3}))).size(), 2U);
  EXPECT_EQ(moved.weight.sum().item<float>(), 6);
}

TEST(Prune, NothingChangesIfALaterNameIsTaken) {
  OneWeight first(wide());
  OneWeight second(wide());
  second.register_buffer("weight_mask", ones({1}));
  constexpr std::string_view kWhy =
      "prune: OneWeight has a tensor or module \"weight_mask\" already, which pruning \"weight\" "
      "makes";
  EXPECT_ERROR(l1_unstructured(second, "weight", 0.5), kInvalidArgument, kWhy);
  const std::vector<ParameterOf> both = {{first, "weight"}, {second, "weight"}};
  EXPECT_ERROR(global_unstructured(both, Unstructured::kL1, 0.5), kInvalidArgument, kWhy);
  EXPECT_FALSE(is_pruned(first) || is_pruned(second));
  EXPECT_EQ(names_in(first.state_dict()), std::vector<std::string>{"weight"});
  EXPECT_EQ(names_in(second.state_dict()), (std::vector<std::string>{"weight", "weight_mask"}));
  // A submodule's parameter.
  Sequential network{Linear(2, 2)};
  const std::vector<ParameterOf> dotted = {{first, "weight"}, {network, "0.weight"}};
  EXPECT_THROW(global_unstructured(dotted, Unstructured::kL1, 0.5), Error);
  EXPECT_FALSE(is_pruned(first));
}

TEST(Prune, RefusesWhatCannotBePruned) {
  OneWeight module(wide());
  EXPECT_ERROR(l1_unstructured(module, "weight", 1.5), kInvalidArgument,
               "prune: the amount is 1.5, wanted a share from 0 to 1; a whole number counts "
               "elements");
  EXPECT_ERROR(l1_unstructured(module, "weight", -1), kInvalidArgument,
               "prune: the amount is -1, wanted at least 0");
  EXPECT_ERROR(l1_unstructured(module, "weight", 1001), kInvalidArgument,
               "prune: the amount is 1001, but only 1000 are not pruned yet");
  EXPECT_ERROR(l1_unstructured(module, "bias", 1), kNotFound,
               "get_parameter(\"bias\"): OneWeight has no parameter \"bias\"; it has \"weight\"");
  EXPECT_ERROR(remove(module, "weight"), kInvalidArgument,
               "prune::remove: \"weight\" of OneWeight is not pruned");
  EXPECT_ERROR(custom_from_mask(module, "weight", ones({2})), kShape,
               "custom_from_mask: the mask has shape [2], wanted that of \"weight\", [20, 50]");
  EXPECT_THROW(ln_structured(module, "weight", 1, 2, 5), Error);
  OneWeight vector(ones({4}));
  EXPECT_ERROR(random_structured(vector, "weight", 1, 0), kShape,
               "prune: the parameter has shape [4], wanted at least two dimensions to prune "
               "channels");
  // Nothing has changed.
  EXPECT_EQ(names_in(module.state_dict()), std::vector<std::string>{"weight"});
  EXPECT_FALSE(is_pruned(vector));
}

}  // namespace
}  // namespace dl::nn::utils::prune
