// CTC's loss against PyTorch's arrays, as a function and as a module.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "nn/layers/loss.h"
#include "tests/nn/parity.h"

namespace dl::nn {
namespace {

TEST(CtcLoss, AgreesWithPyTorch) {
  const parity::Arrays arrays("ctc");
  const std::map<std::string, CTCLossOptions> cases = {{"padded", {}},
                                                       {"concatenated", {}},
                                                       {"one", {}},
                                                       {"repeated", {}},
                                                       {"last_blank", {.blank = 4}},
                                                       {"empty_targets", {}},
                                                       {"too_long", {.zero_infinity = true}}};
  for (const auto& [name, options] : cases) {
    for (const auto& [reduction_name, reduction] : std::map<std::string, Reduction>{
             {"none", Reduction::kNone}, {"mean", Reduction::kMean}, {"sum", Reduction::kSum}}) {
      CTCLossOptions with = options;
      with.reduction = reduction;
      parity::expect_agreement(
          arrays, name, name + "." + reduction_name,
          [&](const parity::Inputs& in) {
            const Tensor y =
                CTCLoss(with)(in["input"], in["target"], in["input_lengths"], in["target_lengths"]);
            const Tensor same = ctc_loss(in["input"], in["target"], in["input_lengths"],
                                         in["target_lengths"], with);
            EXPECT_EQ(values<double>(same.detach()), values<double>(y.detach()));
            return y;
          },
          {.with_half = false});
    }
  }
}

// As in PyTorch: NaN, so that nothing trains on it unnoticed.
TEST(CtcLoss, OfATargetThatIsTooLongIsInfinite) {
  const Tensor x = full({2, 1, 3}, -1.0, {.requires_grad = true});
  const Tensor loss = ctc_loss(x, tensor({{1, 1}}), tensor({2}), tensor({2}));
  EXPECT_EQ(loss.item<float>(), std::numeric_limits<float>::infinity());
  loss.backward();
  EXPECT_TRUE(std::isnan(x.grad().at<float>({0, 0, 0})));
}

// Nor does zero_infinity hide it. The last place of the last step is two behind the NaN.
TEST(CtcLoss, OfNaNIsNaN) {
  Tensor x = full({2, 1, 3}, -1.0);
  x.select(0, 0).fill_(std::nan(""));
  for (const bool zero_infinity : {false, true}) {
    const Tensor loss =
        ctc_loss(x, tensor({{1, 2}}), tensor({2}), tensor({2}), {.zero_infinity = zero_infinity});
    EXPECT_TRUE(std::isnan(loss.item<float>()));
  }
}

TEST(CtcLoss, TakesStridedLogProbabilities) {
  const Tensor x = arange(60, {.dtype = DType::kF32}).view({3, 4, 5}).clone().detach();
  Tensor leaf = x.clone();
  leaf.requires_grad_();
  const Tensor targets = tensor({{1, 2}, {3, 1}, {4, 4}});
  const Tensor loss = ctc_loss(log_softmax(leaf * 0.1, 2).transpose(0, 1), targets,
                               tensor({4, 3, 4}), tensor({2, 1, 2}));
  loss.backward();
  Tensor turned = x.transpose(0, 1).contiguous();
  turned.requires_grad_();
  const Tensor same =
      ctc_loss(log_softmax(turned * 0.1, 2), targets, tensor({4, 3, 4}), tensor({2, 1, 2}));
  same.backward();
  EXPECT_EQ(loss.item<float>(), same.item<float>());
  EXPECT_EQ(values<float>(leaf.grad().transpose(0, 1)), values<float>(turned.grad()));
}

TEST(CtcLoss, SaysWhatCameAndWhatWasWanted) {
  const Tensor x = zeros({4, 2, 3});
  const Tensor labels = tensor({{1, 2}, {2, 1}});
  EXPECT_ERROR(ctc_loss(x, labels, tensor({4, 5}), tensor({2, 2})), kInvalidArgument,
               "ctc_loss: input_lengths[1] is 5, wanted 0 to 4");
  EXPECT_ERROR(ctc_loss(x, labels, tensor({4, 4}), tensor({2, 3})), kInvalidArgument,
               "ctc_loss: target_lengths[1] is 3, wanted 0 to 2");
  EXPECT_ERROR(ctc_loss(x, labels, tensor({4}), tensor({2, 2})), kShape,
               "ctc_loss: input_lengths have shape [1], wanted [2], one for each sample");
  EXPECT_ERROR(ctc_loss(x, tensor({{1, 2}, {3, 1}}), tensor({4, 4}), tensor({2, 2})), kIndex,
               "ctc_loss: label 0 of sample 1 is 3, wanted a class in [0, 3)");
  EXPECT_ERROR(ctc_loss(x, tensor({1, 2, 1}), tensor({4, 4}), tensor({1, 1})), kShape,
               "ctc_loss: the targets have 3 labels, target_lengths 2 in sum");
  EXPECT_ERROR(ctc_loss(x, tensor({{1, 2}}), tensor({4, 4}), tensor({1, 1})), kShape,
               "ctc_loss: the targets have shape [1, 2], wanted [2, S], or [n] with all labels one "
               "after another");
  EXPECT_ERROR(ctc_loss(x, labels, tensor({4, 4}), tensor({2, 2}), {.blank = 3}), kInvalidArgument,
               "ctc_loss: blank is 3, wanted a class in [0, 3)");
  EXPECT_ERROR(ctc_loss(x.to(DType::kF16), labels, tensor({4, 4}), tensor({2, 2})), kDType,
               "ctc_loss: float16 is not supported; wanted float32 or float64");
  EXPECT_ERROR(ctc_loss(zeros({4}), labels, tensor({4, 4}), tensor({2, 2})), kShape,
               "ctc_loss: the log probabilities have shape [4], wanted [T, N, C] or [T, C]");
}

}  // namespace
}  // namespace dl::nn
