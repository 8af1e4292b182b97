// Every option of every loss against PyTorch's arrays, as a function and as a module.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "core/ops/loss/loss.h"
#include "nn/layers/loss.h"
#include "tests/nn/parity.h"

namespace dl::nn {
namespace {

using parity::Inputs;
using ApplyLoss = std::function<Tensor(const Inputs&, Reduction)>;

// Calls the module; `function` must give the same number.
template <typename Module, typename Options>
Tensor both(const Inputs& in, const Options& options,
            Tensor (*function)(const Tensor&, const Tensor&, const Options&)) {
  const Tensor y = Module(options)(in["input"], in["target"]);
  const Tensor same = function(in["input"], in["target"], options);
  EXPECT_EQ(values<double>(same), values<double>(y));
  return y;
}

const std::map<std::string, ApplyLoss>& cases() {
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
    const ApplyLoss mse = [](const Inputs& in, Reduction reduction) {
      return both<MSELoss>(in, MSELossOptions{reduction}, mse_loss);
    };
    const ApplyLoss l1 = [](const Inputs& in, Reduction reduction) {
      return both<L1Loss>(in, L1LossOptions{reduction}, l1_loss);
    };
    const ApplyLoss bce = [](const Inputs& in, Reduction reduction) {
      return both<BCELoss>(in, BCELossOptions{in["weight"], reduction}, binary_cross_entropy);
    };
    const ApplyLoss logits = [](const Inputs& in, Reduction reduction) {
      const BCEWithLogitsLossOptions options{in["weight"], reduction, in["pos_weight"]};
      return both<BCEWithLogitsLoss>(in, options, binary_cross_entropy_with_logits);
    };
    const auto kl = [](bool log_target) {
      return [log_target](const Inputs& in, Reduction reduction) {
        return both<KLDivLoss>(in, KLDivLossOptions{reduction, log_target}, kl_div);
      };
    };
    const ApplyLoss cosine = [](const Inputs& in, Reduction reduction) {
      return CosineEmbeddingLoss({.margin = 0.1, .reduction = reduction})(
          in["input1"], in["input2"], in["target"]);
    };
    const auto hinge = [](double margin) {
      return [margin](const Inputs& in, Reduction reduction) {
        return both<HingeEmbeddingLoss>(in, HingeEmbeddingLossOptions{margin, reduction},
                                        hinge_embedding_loss);
      };
    };
    const ApplyLoss soft_margin = [](const Inputs& in, Reduction reduction) {
      return both<SoftMarginLoss>(in, SoftMarginLossOptions{reduction}, soft_margin_loss);
    };
    const ApplyLoss soft_labels = [](const Inputs& in, Reduction reduction) {
      return both<MultiLabelSoftMarginLoss>(
          in, MultiLabelSoftMarginLossOptions{in["weight"], reduction},
          multilabel_soft_margin_loss);
    };
    const auto multi_margin = [](double p, double margin) {
      return [=](const Inputs& in, Reduction reduction) {
        return both<MultiMarginLoss>(in, MultiMarginLossOptions{p, margin, in["weight"], reduction},
                                     multi_margin_loss);
      };
    };
    const ApplyLoss labels = [](const Inputs& in, Reduction reduction) {
      return both<MultiLabelMarginLoss>(in, MultiLabelMarginLossOptions{reduction},
                                        multilabel_margin_loss);
    };
    const auto poisson = [](PoissonNLLLossOptions options) {
      return [options](const Inputs& in, Reduction reduction) {
        PoissonNLLLossOptions with = options;
        with.reduction = reduction;
        return both<PoissonNLLLoss>(in, with, poisson_nll_loss);
      };
    };
    const auto gaussian = [](GaussianNLLLossOptions options) {
      return [options](const Inputs& in, Reduction reduction) {
        GaussianNLLLossOptions with = options;
        with.reduction = reduction;
        return GaussianNLLLoss(with)(in["input"], in["target"], in["var"]);
      };
    };
    const auto ranking = [](double margin) {
      return [margin](const Inputs& in, Reduction reduction) {
        return MarginRankingLoss({.margin = margin, .reduction = reduction})(
            in["input1"], in["input2"], in["target"]);
      };
    };
    const auto triplet = [](TripletMarginLossOptions options) {
      return [options](const Inputs& in, Reduction reduction) {
        TripletMarginLossOptions with = options;
        with.reduction = reduction;
        return TripletMarginLoss(with)(in["anchor"], in["positive"], in["negative"]);
      };
    };
    return new std::map<std::string, ApplyLoss>{
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
        {"hinge_embedding", hinge(1)},
        {"hinge_embedding_margin", hinge(0.4)},
        {"soft_margin", soft_margin},
        {"multilabel_soft_margin", soft_labels},
        {"multilabel_soft_margin_weight", soft_labels},
        {"multi_margin", multi_margin(1, 1)},
        {"multi_margin_all", multi_margin(2, 0.4)},
        {"multi_margin_one", multi_margin(1, 1)},
        {"multilabel_margin", labels},
        {"multilabel_margin_one", labels},
        {"poisson_nll", poisson({})},
        {"poisson_nll_full", poisson({.full = true})},
        {"poisson_nll_number", poisson({.log_input = false, .eps = 0.1})},
        {"gaussian_nll", gaussian({})},
        {"gaussian_nll_all", gaussian({.full = true, .eps = 0.5})},
        {"margin_ranking", ranking(0)},
        {"margin_ranking_margin", ranking(0.4)},
        {"triplet_margin", triplet({})},
        {"triplet_margin_all", triplet({.margin = 0.4, .p = 3, .eps = 0.1, .swap = true})},
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
      const bool composed = name == "cosine" || name.starts_with("cross_entropy_soft") ||
                            name.find("margin") != name.npos || name.find("_nll") != name.npos;
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
  for (const double p : {1, 2, 3}) {
    ++compared;
    parity::expect_agreement(arrays, "cosine",
                             "pairwise_distance." + std::to_string(static_cast<int>(p)),
                             [&](const Inputs& in) {
                               return PairwiseDistance({.p = p, .eps = 0.1, .keepdim = true})(
                                   in["input1"], in["input2"]);
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

TEST(LossErrors, SayWhatCameAndWhatWasWanted) {
  const Tensor x = zeros({2, 3});
  EXPECT_ERROR(multi_margin_loss(x, tensor({0, 3})), kIndex,
               "multi_margin_loss: the target has a 3, wanted numbers from 0 to 2");
  EXPECT_ERROR(multi_margin_loss(x, tensor({0, 1, 2})), kShape,
               "multi_margin_loss: the target has shape [3], wanted [2]");
  EXPECT_ERROR(multi_margin_loss(x, tensor({0, 1}), {.p = 3}), kInvalidArgument,
               "multi_margin_loss: p is 3, wanted 1 or 2");
  EXPECT_ERROR(multilabel_margin_loss(x, tensor({{0, -2, 1}, {0, 1, 2}})), kIndex,
               "multilabel_margin_loss: the target has a -2, wanted numbers from -1 to 2");
  EXPECT_ERROR(gaussian_nll_loss(x, x, ones({2, 2})), kShape,
               "gaussian_nll_loss: the variance has shape [2, 2], wanted the input's [2, 3], its "
               "last size 1 or left out");
  EXPECT_ERROR(gaussian_nll_loss(x, x, full({2, 3}, -1.0)), kInvalidArgument,
               "gaussian_nll_loss: a variance is below 0");
  EXPECT_ERROR(triplet_margin_loss(x, x, x, {.margin = 0}), kInvalidArgument,
               "triplet_margin_loss: margin is 0, wanted more than 0");
  EXPECT_ERROR(soft_margin_loss(x, x, {Reduction::kBatchMean}), kInvalidArgument,
               "soft_margin_loss: the reduction is kBatchMean, which only kl_div has");
  EXPECT_ERROR(hinge_embedding_loss(tensor({1}), tensor({1})), kDType,
               "hinge_embedding_loss: int64 is not supported; wanted a floating dtype");
}

}  // namespace
}  // namespace dl::nn
