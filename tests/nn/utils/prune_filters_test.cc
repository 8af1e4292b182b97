// Pruning of filters, and cutting them out of networks.
#include "nn/utils/prune/filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/pool/resample.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/activation_with.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/conv/conv_variants.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"
#include "nn/layers/shape/shape.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/resnet.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/utils/prune/prune.h"
#include "tests/core/support.h"

namespace dl::nn::utils::prune {
namespace {

const std::vector<PruneConfig> kHalfOfConvs = {{.op_types = {"Conv2d"}, .sparsity_per_layer = 0.5}};

// A network whose forward() is a function of its layers.
class Net : public Module {
 public:
  using Forward = std::function<Tensor(Net& net, const Tensor& x)>;
  explicit Net(Forward forward) : forward_(std::move(forward)) {}
  Tensor forward(const Tensor& x) override { return forward_(*this, x); }
  template <typename Layer>
  void add(std::string name, Layer layer) {
    register_module(std::move(name), std::move(layer));
  }
  Tensor run(const std::string& name, const Tensor& x) { return get_submodule(name)(x); }

 private:
  Forward forward_;
};

// Gives the normalisations statistics, weights and biases that are not those of a new network.
void unsettle(Module& network, const Tensor& sample) {
  const NoGradGuard no_grad;
  for (BatchNorm* const norm : batch_norms(network)) {
    norm->running_mean.uniform_(-0.5, 0.5);
    norm->running_var.uniform_(0.5, 2);
    if (norm->weight.defined()) norm->weight.uniform_(0.5, 1.5);
    if (norm->bias.defined()) norm->bias.uniform_(-0.5, 0.5);
  }
  network.eval();
  EXPECT_GT(network(sample).abs().amax().item<float>(), 0) << "nothing to compare";
}

void expect_same_result(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  const float largest = wanted.abs().amax().item<float>();
  EXPECT_LE((got - wanted).abs().amax().item<float>(), 1e-5F * largest);
}

// Prunes, compares the cut network's result with that of the masked one, and trains a step. Returns
// the layers and what was cut.
std::pair<std::vector<PrunedLayer>, SpeedUp> expect_cuttable(
    Module& network, const Tensor& sample, const std::vector<PruneConfig>& configs = kHalfOfConvs) {
  unsettle(network, sample);
  const std::vector<PrunedLayer> layers = prune_filters(network, sample, configs);
  const Shape shape = sample.sizes();
  Shape of_two = shape;
  of_two[0] = 2;
  const Tensor x = rand(of_two) - 0.5;
  network.eval();
  const Tensor masked = network(x).detach();
  const SpeedUp report = speed_up(network, sample);
  EXPECT_FALSE(network.is_training());
  EXPECT_FALSE(is_pruned(network));
  EXPECT_LT(report.parameters_after, report.parameters_before);
  EXPECT_EQ(report.parameters_after, network.count_parameters());
  expect_same_result(network(x).detach(), masked);
  network.train();
  network(x).square().mean().backward();
  for (const NamedTensor& each : network.named_parameters()) {
    EXPECT_TRUE(each.tensor.is_leaf() && each.tensor.requires_grad()) << each.name;
  }
  return {layers, report};
}

std::vector<std::int64_t> kept_rows(Module& network, const std::string& weight) {
  const std::size_t dot = weight.rfind('.');
  Module& module = network.get_submodule(weight.substr(0, dot));
  std::vector<std::int64_t> rows;
  for (const NamedTensor& buffer : module.named_buffers(false)) {
    if (buffer.name != weight.substr(dot + 1) + "_mask") continue;
    for (std::int64_t i = 0; i < buffer.tensor.size(0); ++i) {
      if (buffer.tensor.select(0, i).amax().item<float>() != 0) rows.push_back(i);
    }
  }
  return rows;
}

TEST(PruneFilters, HalfOfTheBooksNetworkHas1059306Parameters) {
  manual_seed(1);
  Sequential network = models::book_cnn({.channels = 3, .size = 32});
  const auto [layers, report] = expect_cuttable(network, rand({1, 3, 32, 32}));
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].name, "0");
  EXPECT_EQ(layers[0].pruned, 16);
  EXPECT_EQ(layers[1].filters, 64);
  EXPECT_EQ(report.parameters_before, 2'122'186);
  EXPECT_EQ(report.parameters_after, 1'059'306);
  EXPECT_EQ(report.changes, (std::vector<std::string>{
                                "0.weight: [32, 3, 3, 3] -> [16, 3, 3, 3]", "0.bias: [32] -> [16]",
                                "3.weight: [64, 32, 3, 3] -> [32, 16, 3, 3]",
                                "3.bias: [64] -> [32]", "7.weight: [512, 4096] -> [512, 2048]"}));
  EXPECT_EQ(network.get_submodule("3").str(),
            "Conv2d(16, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))");
}

TEST(PruneFilters, TheSmallestNormsGo) {
  Sequential network{Conv2d(2, 4, 1), ReLU(), Conv2d(4, 2, 1)};
  auto& first = dynamic_cast<Conv2d&>(network.get_submodule("0"));
  {
    const NoGradGuard no_grad;
    first.weight.copy_(tensor({1.0, -1.0, 3.0, -3.0, 0.5, 0.25, 2.0, 0.0}).view({4, 2, 1, 1}));
  }
  const auto layers =
      prune_filters(network, ones({1, 2, 3, 3}), {{.op_names = {"0"}, .sparsity_per_layer = 0.8}});
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].pruned, 3);
  EXPECT_EQ(values<float>(first.weight), (std::vector<float>{0, 0, 3, -3, 0, 0, 0, 0}));
  EXPECT_EQ(kept_rows(network, "0.bias"), std::vector<std::int64_t>{1});
}

TEST(PruneFilters, MaskedFiltersStay0WhileTraining) {
  manual_seed(2);
  Sequential network{Conv2d(1, 8, 3), BatchNorm2d(8), ReLU(), Flatten(), Linear(8 * 36, 3)};
  prune_filters(network, ones({1, 1, 8, 8}), kHalfOfConvs);
  optim::SGD optimizer(network.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  const Tensor x = rand({6, 1, 8, 8});
  const auto result_of_conv = [&] {
    return network.get_submodule("1")(network.get_submodule("0")(x));
  };
  const std::vector<std::int64_t> kept = kept_rows(network, "0.weight");
  ASSERT_EQ(kept.size(), 4U);
  EXPECT_EQ(kept_rows(network, "1.bias"), kept);
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    functional::cross_entropy(network(x), tensor({0, 1, 2, 0, 1, 2})).backward();
    optimizer.step();
    const Tensor largest = result_of_conv().detach().abs().amax({0, 2, 3});
    for (std::int64_t c = 0; c < 8; ++c) {
      EXPECT_EQ(largest[c].item<float>() != 0, std::ranges::count(kept, c) == 1) << c;
    }
  }
  speed_up(network, ones({1, 1, 8, 8}));
  EXPECT_EQ(network.count_parameters(), 4 * 10 + 4 * 2 + (4 * 36 + 1) * 3);
}

TEST(PruneFilters, ResNetsAddedChannelsHaveOneMask) {
  manual_seed(3);
  models::ResNet network({.depth = 18, .num_classes = 10, .small_images = true});
  const Tensor sample = rand({1, 3, 16, 16});
  {
    models::ResNet masked({.depth = 18, .num_classes = 10, .small_images = true});
    prune_filters(masked, sample, kHalfOfConvs);
    const std::vector<std::int64_t> kept = kept_rows(masked, "conv1.weight");
    EXPECT_EQ(kept.size(), 32U);
    for (const char* const weight :
         {"layer1.0.conv2.weight", "layer1.1.conv2.weight", "layer1.1.bn2.weight", "bn1.bias"}) {
      EXPECT_EQ(kept_rows(masked, weight), kept) << weight;
    }
    EXPECT_NE(kept_rows(masked, "layer1.0.conv1.weight"), kept);
  }
  const auto [layers, report] = expect_cuttable(network, sample);
  EXPECT_EQ(layers.size(), 20U);
  for (const PrunedLayer& layer : layers) EXPECT_EQ(2 * layer.pruned, layer.filters) << layer.name;
  // All convolutions have half of the inputs and outputs.
  EXPECT_LT(report.parameters_after, report.parameters_before * 0.26);
}

TEST(PruneFilters, CutsConcatenations) {
  manual_seed(4);
  models::DenseNet network(
      {.growth_rate = 8, .block_config = {2, 3, 2, 2}, .num_init_features = 16, .num_classes = 10});
  const auto [layers, report] = expect_cuttable(network, rand({1, 3, 64, 64}));
  EXPECT_LT(report.parameters_after, report.parameters_before * 0.35);
}

TEST(PruneFilters, CutsDepthwiseConvolutionsAndSqueezing) {
  manual_seed(5);
  models::EfficientNet network({.num_classes = 10});
  // Residuals join the layers of a stage; the others follow them.
  const auto [layers, report] = expect_cuttable(network, rand({1, 3, 32, 32}));
  EXPECT_LT(report.parameters_after, report.parameters_before * 0.35);
  for (const NamedModule& each : network.named_modules()) {
    const auto* const conv = dynamic_cast<const Conv2d*>(each.module);
    if (conv == nullptr) continue;
    EXPECT_EQ(conv->weight.size(1) * conv->options.groups, conv->in_channels) << each.name;
    EXPECT_EQ(conv->weight.size(0), conv->out_channels) << each.name;
  }
}

TEST(PruneFilters, CutsGroupsShufflesAndWhatIsWrittenInPlaces) {
  manual_seed(6);
  Net network([](Net& net, const Tensor& x) {
    Tensor y = net.run("slopes", net.run("stem", x));
    y = net.run("grouped", y);
    y = channel_shuffle(y, 2);
    y = y * sigmoid(y) + leaky_relu(y, 0.1);
    y = pad(y, {1, 1, 1, 1});
    y = pixel_shuffle(net.run("wide", y), 2);
    Tensor both = zeros({y.size(0), 2 * y.size(1), y.size(2), y.size(3)});
    both.narrow(1, 0, y.size(1)).copy_(y);
    both.narrow(1, y.size(1), y.size(1)).copy_(tanh(y));
    y = avg_pool2d(net.run("last", relu(both)), {.kernel = 2, .stride = 2});
    y = y.permute({0, 2, 3, 1}).mean({1, 2});
    return net.run("fc", gelu(net.run("hidden", y)));
  });
  network.add("stem", Conv2d(3, 16, 3, {.padding = 1}));
  network.add("slopes", PReLU({.num_parameters = 16}));
  network.add("grouped", Conv2d(16, 16, 3, {.padding = 1, .groups = 2, .bias = false}));
  network.add("wide", Conv2d(16, 32, 1));
  network.add("last", Conv2d(16, 12, 3));
  network.add("hidden", Linear(12, 10));
  network.add("fc", Linear(10, 4));
  const auto [layers, report] = expect_cuttable(
      network, rand({1, 3, 8, 8}),
      {{.op_types = {"Conv2d", "Linear"}, .exclude_op_names = {"fc"}, .sparsity_per_layer = 0.5}});
  const auto rows = [&](const std::string& path) {
    return network.get_parameter(path + ".weight").sizes();
  };
  EXPECT_EQ(rows("stem"), (Shape{8, 3, 3, 3}));
  EXPECT_EQ(rows("slopes"), Shape{8});
  EXPECT_EQ(rows("grouped"), (Shape{8, 4, 3, 3}));
  EXPECT_EQ(rows("wide"), (Shape{16, 8, 1, 1}));
  EXPECT_EQ(rows("last"), (Shape{6, 8, 3, 3}));
  EXPECT_EQ(rows("hidden"), (Shape{5, 6}));
  EXPECT_EQ(rows("fc"), (Shape{4, 5}));
}

TEST(PruneFilters, CutsSignals) {
  manual_seed(7);
  Sequential network{Conv1d(4, 8, 3), BatchNorm1d(8), ReLU(),          Conv1d(8, 6, 3),
                     Dropout(0.5),    Flatten(),      Linear(6 * 8, 2)};
  const auto [layers, report] = expect_cuttable(
      network, rand({1, 4, 12}), {{.op_types = {"Conv1d"}, .sparsity_per_layer = 0.5}});
  EXPECT_EQ(network.get_submodule("3").str(), "Conv1d(4, 3, kernel_size=(3,), stride=(1,))");
}

TEST(PruneFilters, ASparsityForAllLayersTakesTheSmallestOfAll) {
  manual_seed(8);
  Sequential network{Conv2d(1, 10, 3), ReLU(), Conv2d(10, 10, 3), ReLU(), Conv2d(10, 3, 1)};
  {
    const NoGradGuard no_grad;
    network.get_parameter("0.weight").mul_(1e-3);
  }
  const std::vector<PruneConfig> configs = {{.op_types = {"Conv2d"},
                                             .exclude_op_names = {"4"},
                                             .total_sparsity = 0.5,
                                             .max_sparsity_per_layer = 0.8}};
  const auto layers = prune_filters(network, ones({1, 1, 8, 8}), configs);
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].pruned, 8);
  EXPECT_EQ(layers[1].pruned, 2);
}

TEST(PruneFilters, TheLastConfigurationCounts) {
  Sequential network{Conv2d(1, 8, 3), ReLU(), Conv2d(8, 8, 3), ReLU(), Conv2d(8, 2, 1)};
  const auto layers = prune_filters(network, ones({1, 1, 8, 8}),
                                    {{.op_names = {"0", "2"}, .sparsity_per_layer = 0.25},
                                     {.op_names = {"2"}, .sparsity_per_layer = 0.75}});
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].pruned, 2);
  EXPECT_EQ(layers[1].pruned, 6);
  EXPECT_TRUE(network.get_submodule("4").named_buffers().empty());
}

TEST(PruneFilters, EachLayerHasItsShareOfAConcatenation) {
  manual_seed(11);
  for (const bool is_global : {false, true}) {
    Net network([](Net& net, const Tensor& x) {
      const Tensor y = net.run("a", x) + cat({net.run("b", x), net.run("c", x)}, 1);
      return net.run("out", relu(y));
    });
    network.add("a", Conv2d(1, 8, 1));
    network.add("b", Conv2d(1, 4, 1));
    network.add("c", Conv2d(1, 4, 1));
    network.add("out", Conv2d(8, 2, 1));
    {
      const NoGradGuard no_grad;
      network.get_parameter("b.weight").mul_(1e-3);
      network.get_parameter("a.weight").fill_(1);
    }
    PruneConfig config{.exclude_op_names = {"out"}};
    (is_global ? config.total_sparsity : config.sparsity_per_layer) = 0.5;
    if (is_global) config.max_sparsity_per_layer = 0.5;
    const Tensor sample = rand({1, 1, 3, 3});
    const auto layers = prune_filters(network, sample, {config});
    ASSERT_EQ(layers.size(), 3U);
    for (const PrunedLayer& layer : layers) {
      EXPECT_EQ(2 * layer.pruned, layer.filters) << layer.name;
    }
    speed_up(network, sample);
    EXPECT_EQ(network.get_parameter("b.weight").sizes(), (Shape{2, 1, 1, 1}));
  }
}

TEST(PruneFilters, AGroupOfOneColumnIsNotDepthwise) {
  manual_seed(12);
  const auto make = [](std::int64_t size) {
    return Sequential{Conv2d(3, 4, 1), ReLU(),    Conv2d(4, 4, 1, {.groups = 2}),
                      ReLU(),          Flatten(), Linear(4 * size, 2)};
  };
  const std::vector<PruneConfig> configs = {{.op_names = {"0", "2"}, .sparsity_per_layer = 0.5}};
  Sequential network = make(9);
  expect_cuttable(network, rand({1, 3, 3, 3}), configs);
  EXPECT_EQ(network.get_submodule("2").str(),
            "Conv2d(2, 2, kernel_size=(1, 1), stride=(1, 1), groups=2)");
  // If it does not fit, it comes back with its groups.
  Net refused([&](Net& net, const Tensor& x) {
    return net.run("all.5", net.run("all.2", net.run("all.0", x)).reshape({-1, 4 * 9}));
  });
  refused.add("all", make(9));
  const std::string before = refused.str();
  prune_filters(refused, rand({1, 3, 3, 3}),
                {{.op_names = {"all.0", "all.2"}, .sparsity_per_layer = 0.5}});
  EXPECT_THROW(speed_up(refused, rand({1, 3, 3, 3})), Error);
  EXPECT_EQ(refused.str(), before);
}

TEST(PruneFilters, ATableOfEmbeddingsIsOneSet) {
  manual_seed(13);
  Net network([](Net& net, const Tensor& x) {
    return net.run("out", relu(net.run("hidden", net.run("words", x).mean({1}))));
  });
  network.add("words", Embedding(20'000, 16));
  network.add("hidden", Linear(16, 8));
  network.add("out", Linear(8, 2));
  const Tensor words = tensor({{1, 2, 3}});
  const auto layers =
      prune_filters(network, words, {{.op_names = {"hidden"}, .sparsity_per_layer = 0.5}});
  EXPECT_EQ(layers.at(0).pruned, 4);
  speed_up(network, words);
  EXPECT_EQ(network.get_parameter("out.weight").sizes(), (Shape{2, 4}));
}

TEST(PruneFilters, AnExcludedLayerKeepsWhatIsAddedToIt) {
  Net network([](Net& net, const Tensor& x) {
    const Tensor y = net.run("a", x);
    return net.run("c", relu(y + net.run("b", y)));
  });
  network.add("a", Conv2d(1, 4, 1));
  network.add("b", Conv2d(4, 4, 1));
  network.add("c", Conv2d(4, 2, 1));
  const auto layers = prune_filters(
      network, ones({1, 1, 4, 4}),
      {{.op_types = {"Conv2d"}, .exclude_op_names = {"b", "c"}, .sparsity_per_layer = 0.5}});
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].pruned, 0);
  EXPECT_FALSE(is_pruned(network));
}

std::string why_not(Module& network, const Tensor& sample,
                    const std::vector<PruneConfig>& configs = kHalfOfConvs) {
  try {
    prune_filters(network, sample, configs);
  } catch (const Error& error) {
    EXPECT_FALSE(is_pruned(network));
    return error.what();
  }
  return "";
}

// Why the layer "conv", of 4 filters, cannot be pruned, if `after` follows it and then a linear
// layer over all.
std::string why_not_before(const std::function<Tensor(const Tensor&)>& after) {
  Net network([&](Net& net, const Tensor& x) {
    return net.run("fc", after(net.run("conv", x)).flatten(1));
  });
  network.add("conv", Conv2d(4, 4, 3, {.padding = 1}));
  network.add("fc", Linear(4 * 36, 2));
  return why_not(network, rand({1, 4, 6, 6}));
}

std::string refusal(const std::string& why) {
  return "prune_filters: a filter of \"conv\" cannot be cut out, because " + why +
         "; name the layer in exclude_op_names";
}

TEST(PruneFilters, AnOperationThatCannotBeFollowedIsNamed) {
  EXPECT_EQ(why_not_before([](const Tensor& x) { return relu(x); }), "");
  EXPECT_EQ(why_not_before([](const Tensor& x) { return softmax(x, 1); }),
            refusal("softmax reads it"));
  EXPECT_EQ(why_not_before([](const Tensor& x) { return x - x.mean(1, {.keepdim = true}); }),
            refusal("mean combines it with other channels"));
  EXPECT_EQ(why_not_before([](const Tensor& x) { return sigmoid(x); }),
            refusal("a channel of zeros is not 0 after sigmoid"));
  EXPECT_EQ(why_not_before([](const Tensor& x) { return x + 1; }),
            refusal("a channel of zeros is not 0 after add"));
  LayerNorm norm(6);
  EXPECT_EQ(why_not_before([&](const Tensor& x) { return norm(x); }),
            refusal("layer_norm reads it"));
}

TEST(PruneFilters, WhatAnInputIsAddedToStays) {
  Net network(
      [](Net& net, const Tensor& x) { return net.run("fc", (x + net.run("conv", x)).flatten(1)); });
  network.add("conv", Conv2d(4, 4, 3, {.padding = 1}));
  network.add("fc", Linear(4 * 36, 2));
  EXPECT_EQ(why_not(network, rand({1, 4, 6, 6})),
            refusal("add combines it with data of no channel"));
}

TEST(PruneFilters, ALearnedNumberForAllChannelsIsNoChannels) {
  class Shifted : public Module {
   public:
    Tensor forward(const Tensor& x) override { return fc((conv(x) + shift).flatten(1)); }
    Conv2d& conv = register_module("conv", Conv2d(1, 4, 1));
    Linear& fc = register_module("fc", Linear(4 * 9, 2));
    Tensor& shift = register_parameter("shift", ones({1}));
  };
  Shifted network;
  EXPECT_EQ(why_not(network, rand({1, 1, 3, 3})), refusal("a channel of zeros is not 0 after add"));
}

TEST(PruneFilters, AParameterThatDataNeedsTooIsNotMasked) {
  class Shifted : public Module {
   public:
    Tensor forward(const Tensor& x) override {
      const Tensor shifts = shift.view({4, 1, 1});
      const Tensor of_data = relu(x + shifts).mean();
      return fc((relu(conv(x) + shifts) + of_data).flatten(1));
    }
    Conv2d& conv = register_module("conv", Conv2d(4, 4, 1));
    Linear& fc = register_module("fc", Linear(4 * 9, 2));
    Tensor& shift = register_parameter("shift", ones({4}));
  };
  Shifted network;
  EXPECT_EQ(why_not(network, rand({1, 4, 3, 3})), refusal("add uses its parameter elsewhere, too"));
}

TEST(PruneFilters, TheOutputsLayerIsRefusedByName) {
  Sequential network{Conv2d(1, 4, 3), ReLU(), Conv2d(4, 4, 3)};
  EXPECT_EQ(why_not(network, rand({1, 1, 8, 8})),
            "prune_filters: a filter of \"2\" cannot be cut out, because it is a part of the "
            "network's output; name the layer in exclude_op_names");
}

TEST(PruneFilters, RefusesWrongConfigurations) {
  Sequential network{Conv2d(1, 4, 3), Conv2d(4, 2, 3)};
  const Tensor sample = rand({1, 1, 8, 8});
  EXPECT_ERROR(prune_filters(network, sample, {{.exclude_op_names = {"fc"}}}), kNotFound,
               "prune_filters: Sequential has no module \"fc\"");
  EXPECT_ERROR(prune_filters(network, sample, {{.sparsity_per_layer = 1}}), kInvalidArgument,
               "prune_filters: a sparsity is 1, wanted at least 0 and less than 1");
  EXPECT_ERROR(prune_filters(network, sample, {{.sparsity_per_layer = 0.1, .total_sparsity = 0.1}}),
               kInvalidArgument,
               "prune_filters: a configuration has sparsity_per_layer and total_sparsity, wanted "
               "one of them");
  EXPECT_ERROR(prune_filters(network, sample, {{.max_sparsity_per_layer = 1.5}}), kInvalidArgument,
               "prune_filters: max_sparsity_per_layer is 1.5, wanted 0 to 1");
  EXPECT_ERROR(speed_up(network, sample), kInvalidArgument,
               "speed_up: Sequential is not pruned; call prune_filters() first");
}

TEST(SpeedUp, AFilterWithAnUnmaskedBiasIsRefused) {
  manual_seed(9);
  Sequential network{Conv2d(1, 4, 3), ReLU(), Conv2d(4, 2, 3)};
  ln_structured(network.get_submodule("0"), "weight", 2, 1, 0);
  try {
    speed_up(network, rand({1, 1, 8, 8}));
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("of \"0.bias\" is not 0, but the filter of its channel is masked") !=
                text.npos)
        << text;
  }
  EXPECT_TRUE(is_pruned(network));
  // Without a bias, or with a masked one, torch's masks are enough.
  Sequential unbiased{Conv2d(1, 4, 3, {.bias = false}), ReLU(), Conv2d(4, 2, 3)};
  ln_structured(unbiased.get_submodule("0"), "weight", 2, 1, 0);
  speed_up(unbiased, rand({1, 1, 8, 8}));
  EXPECT_EQ(unbiased.get_parameter("2.weight").sizes(), (Shape{2, 2, 3, 3}));
}

TEST(SpeedUp, AForwardWithSizesInNumbersIsRefusedAndPutBack) {
  manual_seed(10);
  Net network([](Net& net, const Tensor& x) {
    return net.run("fc", net.run("conv", x).reshape({-1, 4 * 36}));
  });
  network.add("conv", Conv2d(1, 4, 3, {.padding = 1}));
  network.add("fc", Linear(4 * 36, 2));
  const Tensor sample = rand({1, 1, 6, 6});
  prune_filters(network, sample, kHalfOfConvs);
  const Tensor before = network(sample).detach();
  EXPECT_THROW(speed_up(network, sample), Error);
  EXPECT_EQ(network.get_parameter("conv.weight").sizes(), (Shape{4, 1, 3, 3}));
  EXPECT_EQ(values<float>(network(sample).detach()), values<float>(before));
}

TEST(SpeedUp, AnyExceptionPutsTheNetworkBack) {
  manual_seed(14);
  Net network([](Net& net, const Tensor& x) {
    const Tensor y = net.run("conv", x);
    if (y.size(1) != 4) throw std::runtime_error("not 4 channels");
    return net.run("last", y);
  });
  network.add("conv", Conv2d(1, 4, 3));
  network.add("last", Conv2d(4, 2, 3));
  const Tensor sample = rand({1, 1, 6, 6});
  prune_filters(network, sample, {{.op_names = {"conv"}, .sparsity_per_layer = 0.5}});
  const Tensor before = network(sample).detach();
  EXPECT_THROW(speed_up(network, sample), std::runtime_error);
  EXPECT_EQ(network.get_parameter("conv.weight").sizes(), (Shape{4, 1, 3, 3}));
  EXPECT_EQ(network.get_submodule("last").str(), "Conv2d(4, 2, kernel_size=(3, 3), stride=(1, 1))");
  EXPECT_EQ(values<float>(network(sample).detach()), values<float>(before));
}

TEST(SpeedUp, ASampleOfZerosIsNotAllThatIsCompared) {
  manual_seed(15);
  // It counts on the number of channels in a way that no shape shows.
  Net network([](Net& net, const Tensor& x) {
    const Tensor y = net.run("conv", x);
    return net.run("last", y * static_cast<double>(y.size(1)));
  });
  network.add("conv", Conv2d(1, 4, 3, {.bias = false}));
  network.add("last", Conv2d(4, 2, 3, {.bias = false}));
  const Tensor sample = zeros({1, 1, 6, 6});
  prune_filters(network, sample, {{.op_names = {"conv"}, .sparsity_per_layer = 0.5}});
  try {
    speed_up(network, sample);
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
  }
}

}  // namespace
}  // namespace dl::nn::utils::prune
