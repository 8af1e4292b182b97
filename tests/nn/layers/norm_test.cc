#include "nn/layers/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/autograd/gradcheck.h"
#include "core/device/parallel.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/norm/norm.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/nn/parity.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

using parity::Inputs;
using Apply = std::function<Tensor(const Inputs&)>;

TEST(Norms, AgreeWithPyTorch) {
  const parity::Arrays arrays("norms");
  const auto batch_norm_of = [&arrays](bool training, MemoryFormat format) -> Apply {
    return [=, &arrays](const Inputs& in) {
      const Tensor x = in["input"];
      const auto running = [&](const char* name) {
        return tensor(arrays.get<double>(name), {.dtype = DType::kF64}).to(x.dtype()).clone();
      };
      const Tensor shown = x.dim() == 4 ? x.contiguous(format) : x;
      return batch_norm(shown, running("mean"), running("variance"), in["scale"], in["bias"],
                        {.training = training, .momentum = 0.2, .eps = 1e-3});
    };
  };
  std::map<std::string, Apply> cases{
      {"layer_norm",
       [](const Inputs& in) { return layer_norm(in["input"], {37}, in["scale"], in["bias"]); }},
      {"layer_norm_plain",
       [](const Inputs& in) { return layer_norm(in["input"], {3, 4}, {}, {}, 1e-3); }},
      {"layer_norm_no_bias",
       [](const Inputs& in) { return layer_norm(in["input"], {3, 4}, in["scale"]); }},
      {"rms_norm", [](const Inputs& in) { return rms_norm(in["input"], {37}, in["scale"]); }},
      {"rms_norm_plain", [](const Inputs& in) { return rms_norm(in["input"], {3, 4}, {}, 0.1); }},
      {"group_norm",
       [](const Inputs& in) { return group_norm(in["input"], 3, in["scale"], in["bias"]); }},
      {"group_norm_flat",
       [](const Inputs& in) { return group_norm(in["input"], 2, in["scale"], in["bias"]); }},
      {"group_norm_plain",
       [](const Inputs& in) { return group_norm(in["input"], 1, {}, {}, 1e-2); }},
  };
  for (const std::string name : {"1d", "1d_places", "2d"}) {
    for (const bool training : {true, false}) {
      cases["batch_norm_" + name + (training ? "" : "_eval")] =
          batch_norm_of(training, MemoryFormat::kContiguous);
    }
  }
  for (const auto& [name, apply] : cases) {
    // PyTorch's eps without a number is the dtype's own.
    parity::expect_agreement(arrays, name, name, apply, {.with_half = name != "rms_norm"});
  }
  for (const bool training : {true, false}) {
    const std::string name = training ? "batch_norm_2d" : "batch_norm_2d_eval";
    parity::expect_agreement(arrays, name, name,
                             batch_norm_of(training, MemoryFormat::kChannelsLast));
  }
}

// PyTorch computes in float32, whose epsilon is the default eps, and rounds.
TEST(RMSNorm, OfHalvesHasTheEpsilonOfFloat32) {
  const auto expect = [](DType dtype, double first, double second) {
    const Tensor x = tensor({0.05, -0.03}, {.dtype = dtype}).requires_grad_();
    const Tensor y = RMSNorm({2}, {.dtype = dtype})(x);
    EXPECT_EQ(y[0].item<double>(), first);
    EXPECT_EQ(y[1].item<double>(), second);
    EXPECT_NE(y.str().find("grad_fn=<ToCopyBackward0>"), std::string::npos) << y.str();
  };
  expect(DType::kBF16, 1.2109375, -0.7265625);
  expect(DType::kF16, 1.212890625, -0.7275390625);
}

TEST(Norms, PrintAsPyTorchDoes) {
  std::string text;
  const auto show = [&](const Module& module) {
    text += (text.empty() ? "" : "\n") + module.str();
  };
  show(LayerNorm(5));
  show(LayerNorm({2, 3}, {.eps = 1e-6, .bias = false}));
  show(LayerNorm(4, {.elementwise_affine = false}));
  show(RMSNorm(5));
  show(RMSNorm({2, 3}, {.eps = 1e-6, .elementwise_affine = false}));
  show(GroupNorm(2, 4));
  show(GroupNorm(2, 4, {.eps = 1e-3, .affine = false}));
  show(BatchNorm1d(5));
  show(BatchNorm2d(5, {.eps = 1e-3, .momentum = std::nullopt, .affine = false}));
  show(BatchNorm2d(5, {.momentum = 1, .track_running_stats = false}));
  EXPECT_EQ(text, text_of(parity::Arrays("norms"), "text"));
}

TEST(Norms, PrintWholeNumbersAsFloats) {
  EXPECT_EQ(LayerNorm(5, {.eps = 0}).str(),
            "LayerNorm((5,), eps=0.0, elementwise_affine=True, bias=True)");
  EXPECT_EQ(RMSNorm(5, {.eps = 1}).str(), "RMSNorm((5,), eps=1.0, elementwise_affine=True)");
  EXPECT_EQ(GroupNorm(2, 4, {.eps = 0}).extra_repr(), "2, 4, eps=0.0, affine=True, bias=True");
  EXPECT_EQ(BatchNorm1d(5, {.eps = 0}).extra_repr(),
            "5, eps=0.0, momentum=0.1, affine=True, bias=True, track_running_stats=True");
}

// As PyTorch's, which adds up the numbers themselves.
TEST(BatchNorm, TheMeanWithAnInfiniteNumberIsInfinite) {
  for (const MemoryFormat format : {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast}) {
    for (const std::int64_t size : {2, 70}) {
      Tensor x = ones({2, 3, size, size});
      x[0][1][0][0] = INFINITY;
      x[1][2][1][1] = INFINITY;
      x[0][2][0][1] = -INFINITY;
      BatchNorm2d norm(3);
      norm(x.contiguous(format));
      const auto means = values<float>(norm.running_mean);
      EXPECT_NEAR(means[0], 0.1F, 1e-6);
      EXPECT_EQ(means[1], INFINITY);
      EXPECT_TRUE(std::isnan(means[2]));
      EXPECT_TRUE(std::isnan(values<float>(norm.running_var)[1]));
    }
  }
}

TEST(BatchNorm, KeepsRunningStatisticsAsPyTorchDoes) {
  const parity::Arrays arrays("norms");
  const auto batch = [&](int step) {
    return tensor(arrays.get<double>("running." + std::to_string(step)), {.dtype = DType::kF64})
        .view({3, 6, 4, 5});
  };
  for (const std::optional<double> momentum : {std::optional(0.3), std::optional<double>()}) {
    BatchNorm2d layer(6, {.momentum = momentum, .dtype = DType::kF64});
    for (int step = 0; step < 3; ++step) layer(batch(step));
    const std::string name = std::string("running.") + (momentum ? "0.3" : "None") + ".";
    EXPECT_EQ(layer.num_batches_tracked.item<int>(),
              arrays.get<std::int64_t>(name + "num_batches_tracked")[0]);
    parity::expect_near_share(layer.running_mean, arrays.get<double>(name + "running_mean"), 1e-12,
                              name + "mean");
    parity::expect_near_share(layer.running_var, arrays.get<double>(name + "running_var"), 1e-12,
                              name + "var");
    // A copy of the state computes the same after eval(), and learns nothing there.
    BatchNorm2d other(6, {.momentum = momentum, .dtype = DType::kF64});
    other.load_state_dict(layer.state_dict());
    other.eval();
    layer.eval();
    EXPECT_EQ(values<double>(other(batch(0))), values<double>(layer(batch(0))));
    EXPECT_EQ(values<double>(other.running_mean), values<double>(layer.running_mean));
    EXPECT_EQ(other.num_batches_tracked.item<int>(), 3);
  }
}

TEST(Norms, TakeFloat32WeightsBesideSixteenBits) {
  const Tensor x = random_tensor({6, 8}, DType::kBF16).requires_grad_();
  LayerNorm layer(8);
  const Tensor y = layer(x);
  EXPECT_EQ(y.dtype(), DType::kBF16);
  y.backward(ones({6, 8}, {.dtype = DType::kBF16}));
  EXPECT_EQ(layer.weight.grad().dtype(), DType::kF32);
  EXPECT_EQ(layer.bias.grad().dtype(), DType::kF32);
  EXPECT_EQ(x.grad().dtype(), DType::kBF16);
}

TEST(Norms, EmptyBatchesHaveZeroGradients) {
  LayerNorm layer(3);
  const Tensor y = layer(zeros({0, 3}));
  EXPECT_EQ(y.sizes(), Shape({0, 3}));
  y.backward(zeros({0, 3}));
  EXPECT_EQ(values<float>(layer.weight.grad()), std::vector<float>(3, 0));
}

TEST(Norms, ManyBlocksAndThreadsGiveWhatOneDoes) {
  const Tensor images = random_tensor({4, 24, 40, 40}, DType::kF64);
  const Tensor same = images.contiguous(MemoryFormat::kChannelsLast);
  const auto run = [](const Tensor& x) {
    return batch_norm(x, {}, {}, {}, {}, {.training = true, .eps = 1e-5});
  };
  parity::expect_near_share(run(same.to(DType::kF32)), values<double>(run(images)), 1e-6,
                            "channels-last");
  parity::expect_near_share(run(images.to(DType::kF32)), values<double>(run(images)), 1e-6,
                            "row-major");
  const Tensor far = add(images.to(DType::kF32), 1000);
  parity::expect_near_share(run(far), values<double>(run(far.to(DType::kF64))), 2e-4,
                            "a large mean");
}

// Channels-last, several rows of few channels are computed as one; rows may be left over.
TEST(Norms, AnyNumberOfChannelsGivesWhatRowMajorDoes) {
  for (const std::int64_t channels : {1, 3, 6, 16, 33, 63, 64, 70}) {
    const std::string what = std::to_string(channels) + " channels";
    const Tensor numbers = random_tensor({3, channels, 61, 29}, DType::kF64);
    const Tensor scales = random_tensor({channels}, DType::kF64);
    const auto run = [&](const Tensor& x, DType dtype, bool training) {
      const Tensor leaf = x.to(dtype).detach().requires_grad_();
      const Tensor scale = scales.to(dtype).detach().requires_grad_();
      const Tensor shift = zeros({channels}, {.dtype = dtype}).requires_grad_();
      const Tensor y =
          batch_norm(leaf, zeros({channels}, {.dtype = dtype}), ones({channels}, {.dtype = dtype}),
                     scale, shift, {.training = training});
      // Neither affine, which has gradients of almost 0, nor even, whose sums cancel out.
      y.backward(x.abs().mul(x).add(1).to(dtype));
      return std::vector{y.detach(), leaf.grad(), scale.grad(), shift.grad()};
    };
    for (const bool training : {true, false}) {
      const auto wanted = run(numbers, DType::kF64, training);
      const Tensor last = numbers.contiguous(MemoryFormat::kChannelsLast);
      const auto exact = run(last, DType::kF64, training);
      const auto close = run(last, DType::kF32, training);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        parity::expect_near_share(exact[i], values<double>(wanted[i]), 1e-12, what);
        parity::expect_near_share(close[i], values<double>(wanted[i]), 2e-6, what);
      }
    }
  }
}

TEST(Norms, TheNumberOfThreadsChangesNoBit) {
  const Tensor x = random_tensor({4, 24, 40, 40}, DType::kF32);
  const auto run = [](const Tensor& input, const auto& apply) {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      const Tensor leaf = input.detach().requires_grad_();
      const Tensor scale = ones({24}).requires_grad_();
      apply(leaf, scale).backward(input);
      results.push_back(values<float>(leaf.grad()));
      EXPECT_EQ(results.back(), results.front());
      results.push_back(values<float>(scale.grad()));
      EXPECT_EQ(results.back(), results[1]);
    }
  };
  const int before = num_threads();
  const auto of_batch = [](const Tensor& t, const Tensor& scale) {
    return batch_norm(t, {}, {}, scale, {}, {.training = true});
  };
  run(x, of_batch);
  run(x.contiguous(MemoryFormat::kChannelsLast), of_batch);
  run(x, [](const Tensor& t, const Tensor& scale) { return group_norm(t, 3, scale); });
  run(x.view({-1, 24}),
      [](const Tensor& t, const Tensor& scale) { return layer_norm(t, {24}, scale); });
  set_num_threads(before);
}

TEST(Norms, TakeAListOfOneSize) {
  EXPECT_EQ(LayerNorm({8}).normalized_shape, (Shape{8}));
  EXPECT_EQ(LayerNorm({8}, {.eps = 1e-3}).options.eps, 1e-3);
  EXPECT_EQ(RMSNorm({8}).normalized_shape, (Shape{8}));
  EXPECT_EQ(RMSNorm(Shape{8}).normalized_shape, (Shape{8}));
}

TEST(NormErrors, RefuseEpsAndMomentumThatAreNoNumbers) {
  const double nan = std::nan("");
  EXPECT_ERROR(LayerNorm(4, {.eps = -1}), kInvalidArgument,
               "LayerNorm: eps is -1, wanted at least 0");
  EXPECT_ERROR(RMSNorm(4, {.eps = nan}), kInvalidArgument,
               "RMSNorm: eps is nan, wanted at least 0");
  EXPECT_ERROR(GroupNorm(2, 4, {.eps = HUGE_VAL}), kInvalidArgument,
               "GroupNorm: eps is inf, wanted a finite number");
  EXPECT_ERROR(BatchNorm1d(4, {.eps = nan}), kInvalidArgument,
               "BatchNorm: eps is nan, wanted at least 0");
  EXPECT_ERROR(BatchNorm2d(4, {.momentum = nan}), kInvalidArgument,
               "BatchNorm: momentum is nan, wanted a finite number");
  EXPECT_ERROR(layer_norm(zeros({2, 4}), {4}, {}, {}, nan), kInvalidArgument,
               "layer_norm: eps is nan, wanted at least 0");
  EXPECT_ERROR(rms_norm(zeros({2, 4}), {4}, {}, -1), kInvalidArgument,
               "rms_norm: eps is -1, wanted at least 0");
  EXPECT_ERROR(group_norm(zeros({2, 4}), 2, {}, {}, nan), kInvalidArgument,
               "group_norm: eps is nan, wanted at least 0");
  EXPECT_ERROR(batch_norm(zeros({2, 4}), {}, {}, {}, {}, {.training = true, .momentum = nan}),
               kInvalidArgument, "batch_norm: momentum is nan, wanted a finite number");
}

TEST(BatchNorm, WantsAPositiveEpsToTrainAsPyTorch) {
  BatchNorm1d norm(3, {.eps = 0});
  EXPECT_ERROR(norm(ones({2, 3})), kInvalidArgument,
               "batch_norm: eps is 0, wanted more than 0 to train");
  norm.eval();
  EXPECT_EQ(values<float>(norm(ones({1, 3}))), (std::vector<float>{1, 1, 1}));
}

TEST(NormErrors, SayWhatCameAndWhatWasWanted) {
  EXPECT_ERROR(LayerNorm(4)(zeros({2, 3})), kShape,
               "LayerNorm: normalized_shape is [4], but the input has shape [2, 3], whose last "
               "dimensions differ");
  EXPECT_ERROR(RMSNorm({2, 3})(zeros({3})), kShape,
               "RMSNorm: normalized_shape is [2, 3], but the input has shape [3], whose last "
               "dimensions differ");
  EXPECT_ERROR(LayerNorm(-1), kInvalidArgument,
               "LayerNorm: normalized_shape is [-1], wanted at least one dimension and no negative "
               "size");
  EXPECT_ERROR(
      RMSNorm({2, -3}), kInvalidArgument,
      "RMSNorm: normalized_shape is [2, -3], wanted at least one dimension and no negative "
      "size");
  EXPECT_ERROR(layer_norm(zeros({2, 3}), {4}), kShape,
               "layer_norm: the input has shape [2, 3], wanted last dimensions [4]");
  EXPECT_ERROR(LayerNorm(4)(zeros({2, 4}, {.dtype = DType::kI64})), kDType,
               "layer_norm: int64 is not supported; wanted a floating dtype");
  EXPECT_ERROR(layer_norm(zeros({2, 4}), {4}, ones({3})), kShape,
               "layer_norm: the weight has shape [3], wanted [4]");
  EXPECT_ERROR(layer_norm(zeros({2, 4}), {4}, ones({4}, {.dtype = DType::kF64})), kDType,
               "layer_norm: the weight is float64, wanted float32");
  EXPECT_ERROR(GroupNorm(2, 5), kInvalidArgument,
               "GroupNorm: num_channels is 5, wanted a multiple of num_groups = 2");
  EXPECT_ERROR(group_norm(zeros({2, 5, 3}), 2), kInvalidArgument,
               "group_norm: the input [2, 5, 3] has 5 channels, wanted a multiple of the 2 groups");
  EXPECT_ERROR(BatchNorm1d(3)(zeros({2, 3, 4, 5})), kShape,
               "BatchNorm1d: the input has shape [2, 3, 4, 5], wanted [N, C] or [N, C, L]");
  EXPECT_ERROR(BatchNorm1d(3)(zeros({1, 3})), kShape,
               "batch_norm: the input has shape [1, 3], wanted more than one value a channel to "
               "train on");
  EXPECT_ERROR(
      BatchNorm2d(3)(zeros({2, 4, 5, 5})), kShape,
      "BatchNorm2d: num_features is 3, but the input of shape [2, 4, 5, 5] has 4 channels");
  EXPECT_ERROR(BatchNorm1d(3)(zeros({2, 4})), kShape,
               "BatchNorm1d: num_features is 3, but the input of shape [2, 4] has 4 channels");
  EXPECT_ERROR(GroupNorm(2, 6)(zeros({2, 4, 5})), kShape,
               "GroupNorm: num_channels is 6, but the input of shape [2, 4, 5] has 4 channels");
}

}  // namespace
}  // namespace dl::nn
