// Every option of every loss against PyTorch's arrays, as a function and as a module.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "core/ops/loss.h"
#include "nn/layers/loss.h"
#include "tests/nn/parity.h"

namespace dl::nn {
namespace {

using parity::Inputs;
using Apply = std::function<Tensor(const Inputs&, Reduction)>;

// Calls the module; `function` must give the same number.
template <typename Module, typename Options>
Tensor both(const Inputs& in, const Options& options,
            Tensor (*function)(const Tensor&, const Tensor&, const Options&)) {
  const Tensor y = Module(options)(in["input"], in["target"]);
  const Tensor same = function(in["input"], in["target"], options);
  EXPECT_EQ(values<double>(same), values<double>(y));
  return y;
}

const std::map<std::string, Apply>& cases() {
  static const auto* const all = [] {
    const auto entropy = [](CrossEntropyLossOptions options) {
      return [options](const Inputs& in, Reduction reduction) {
        CrossEntropyLossOptions with = options;
        with.weight = in["weight"];
        with.reduction = reduction;
        return both<CrossEntropyLoss>(in, with, cross_entropy);
      };
    };
    const auto nll = [](std::int64_t ignored) {
      return [ignored](const Inputs& in, Reduction reduction) {
        const NLLLossOptions options{
            .weight = in["weight"], .ignore_index = ignored, .reduction = reduction};
        return both<NLLLoss>(in, options, nll_loss);
      };
    };
    const auto smooth = [](double beta) {
      return [beta](const Inputs& in, Reduction reduction) {
        return both<SmoothL1Loss>(in, SmoothL1LossOptions{reduction, beta}, smooth_l1_loss);
      };
    };
    const auto huber = [](double delta) {
      return [delta](const Inputs& in, Reduction reduction) {
        return both<HuberLoss>(in, HuberLossOptions{reduction, delta}, huber_loss);
      };
    };
    const Apply mse = [](const Inputs& in, Reduction reduction) {
      return both<MSELoss>(in, MSELossOptions{reduction}, mse_loss);
    };
    const Apply l1 = [](const Inputs& in, Reduction reduction) {
      return both<L1Loss>(in, L1LossOptions{reduction}, l1_loss);
    };
    const Apply bce = [](const Inputs& in, Reduction reduction) {
      return both<BCELoss>(in, BCELossOptions{in["weight"], reduction}, binary_cross_entropy);
    };
    const Apply logits = [](const Inputs& in, Reduction reduction) {
      const BCEWithLogitsLossOptions options{in["weight"], reduction, in["pos_weight"]};
      return both<BCEWithLogitsLoss>(in, options, binary_cross_entropy_with_logits);
    };
    const auto kl = [](bool log_target) {
      return [log_target](const Inputs& in, Reduction reduction) {
        return both<KLDivLoss>(in, KLDivLossOptions{reduction, log_target}, kl_div);
      };
    };
    const Apply cosine = [](const Inputs& in, Reduction reduction) {
      return CosineEmbeddingLoss({.margin = 0.1, .reduction = reduction})(
          in["input1"], in["input2"], in["target"]);
    };
    return new std::map<std::string, Apply>{
        {"cross_entropy", entropy({})},
        {"cross_entropy_one", entropy({})},
        {"cross_entropy_weight", entropy({})},
        {"cross_entropy_ignore", entropy({.ignore_index = 2})},
        {"cross_entropy_smooth", entropy({.label_smoothing = 0.1})},
        {"cross_entropy_all", entropy({.label_smoothing = 0.3})},
        {"cross_entropy_images", entropy({})},
        {"cross_entropy_soft", entropy({})},
        {"cross_entropy_soft_all", entropy({.label_smoothing = 0.2})},
        {"cross_entropy_soft_images", entropy({})},
        {"nll", nll(kIgnoreIndex)},
        {"nll_all", nll(1)},
        {"mse", mse},
        {"mse_broadcast", mse},
        {"l1", l1},
        {"l1_broadcast", l1},
        {"smooth_l1", smooth(1)},
        {"smooth_l1_beta", smooth(0.4)},
        {"smooth_l1_zero", smooth(0)},
        {"huber", huber(1)},
        {"huber_delta", huber(0.4)},
        {"bce", bce},
        {"bce_weight", bce},
        {"bce_ends", bce},
        {"bce_with_logits", logits},
        {"bce_with_logits_all", logits},
        {"kl_div", kl(false)},
        {"kl_div_log", kl(true)},
        {"cosine", cosine},
    };
  }();
  return *all;
}

const std::map<std::string, Reduction> kReductions = {{"none", Reduction::kNone},
                                                      {"mean", Reduction::kMean},
                                                      {"sum", Reduction::kSum},
                                                      {"batchmean", Reduction::kBatchMean}};

TEST(Losses, AgreeWithPyTorch) {
  const parity::Arrays arrays("losses");
  std::size_t compared = 0;
  for (const auto& [name, apply] : cases()) {
    for (const auto& [reduction_name, reduction] : kReductions) {
      const std::string at = name + "." + reduction_name;
      if (!arrays.has(at + ".y")) continue;
      ++compared;
      // What is made of other operations is rounded in each.
      const bool composed = name == "cosine" || name.starts_with("cross_entropy_soft");
      parity::expect_agreement(
          arrays, name, at, [&](const Inputs& in) { return apply(in, reduction); },
          // 1e12 is no number of float16.
          {.with_half = name != "bce_ends", .roundings = composed ? 12.0 : 4.0});
    }
  }
  std::size_t made = 0;
  for (const std::string& name : arrays.names()) made += name.ends_with(".g") ? 1 : 0;
  for (const std::int64_t dim : {0, 1, -1}) {
    ++compared;
    parity::expect_agreement(arrays, "cosine", "cosine_similarity." + std::to_string(dim),
                             [&](const Inputs& in) {
                               return CosineSimilarity({.dim = dim})(in["input1"], in["input2"]);
                             },
                             {.roundings = 12});
  }
  EXPECT_EQ(compared, made) << "a case of losses.safetensors has no test";
}

TEST(Losses, KeepTheirWeightsAsBuffers) {
  BCEWithLogitsLoss loss({.weight = ones({3}), .pos_weight = full({3}, 2.0)});
  EXPECT_EQ(loss.state_dict().size(), 2u);
  EXPECT_EQ(loss.state_dict()[0].name, "weight");
  EXPECT_EQ(loss.state_dict()[1].name, "pos_weight");
  EXPECT_EQ(loss.str(), "BCEWithLogitsLoss()");
  loss.to(DType::kF64);
  const Tensor x = zeros({2, 3}, {.dtype = DType::kF64});
  EXPECT_EQ(loss(x, x).dtype(), DType::kF64);
  const BCEWithLogitsLoss moved = std::move(loss);
  EXPECT_EQ(moved(x, x).item<double>(), std::log(2.0));
}

}  // namespace
}  // namespace dl::nn
