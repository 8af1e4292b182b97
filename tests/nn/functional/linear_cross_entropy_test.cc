// The cross entropy of a linear layer against PyTorch's arrays, as a function and as a module, and
// against cross_entropy(linear(...)).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "core/autocast/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "nn/layers/loss.h"
#include "tests/nn/parity.h"

namespace dl::nn {
namespace {

TEST(LinearCrossEntropy, AgreesWithPyTorch) {
  const parity::Arrays arrays("linear_cross_entropy");
  const std::map<std::string, CrossEntropyLossOptions> cases = {
      {"plain", {}},
      {"bias", {}},
      {"weight", {}},
      {"ignored", {.ignore_index = 0}},
      {"smoothed", {.ignore_index = 0, .label_smoothing = 0.3}},
      {"one", {}},
      {"places", {.label_smoothing = 0.1}},
      {"probabilities", {}}};
  for (const auto& [name, options] : cases) {
    for (const auto& [reduction_name, reduction] : std::map<std::string, Reduction>{
             {"none", Reduction::kNone}, {"mean", Reduction::kMean}, {"sum", Reduction::kSum}}) {
      parity::expect_agreement(arrays, name, name + "." + reduction_name,
                               [&](const parity::Inputs& in) {
                                 CrossEntropyLossOptions with = options;
                                 with.reduction = reduction;
                                 with.weight = in["weight"];
                                 return linear_cross_entropy(in["input"], in["matrix"],
                                                             in["target"], in["bias"], with);
                               },
                               {.roundings = 12});
    }
  }
}

struct Problem {
  Tensor input;
  Tensor matrix;
  Tensor bias;
  Tensor target;
  Tensor weight;
};

// 70 rows of 17,000 classes: two chunks.
Problem large(DType dtype) {
  Generator generator(7);
  const auto drawn = [&](const Shape& shape) {
    return randn(shape, {.dtype = DType::kF32}, generator).to(dtype);
  };
  Problem p{drawn({70, 2}).requires_grad_(),
            drawn({17'000, 2}).requires_grad_(),
            drawn({17'000}).requires_grad_(),
            {},
            rand({17'000}, {}, generator).to(dtype)};
  p.target = (arange(70) * 131).to(DType::kI64);
  p.target.slice(0, 0, 70, 7).fill_(kIgnoreIndex);
  return p;
}

TEST(LinearCrossEntropy, OfSeveralChunksIsThatOfAllLogits) {
  for (const Reduction reduction : {Reduction::kNone, Reduction::kMean}) {
    const CrossEntropyLossOptions options{.reduction = reduction, .label_smoothing = 0.2};
    const auto results = [&](bool at_once) {
      const Problem p = large(DType::kF64);
      CrossEntropyLossOptions with = options;
      with.weight = p.weight;
      const Tensor loss = at_once
                              ? cross_entropy(dl::linear(p.input, p.matrix, p.bias), p.target, with)
                              : linear_cross_entropy(p.input, p.matrix, p.target, p.bias, with);
      loss.backward(ones_like(loss) * 0.5);
      return std::vector<Tensor>{loss.detach(), p.input.grad(), p.matrix.grad(), p.bias.grad()};
    };
    const std::vector<Tensor> wanted = results(true);
    const std::vector<Tensor> got = results(false);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(allclose(got[i], wanted[i], {.rtol = 1e-10, .atol = 1e-12})) << i;
    }
  }
}

TEST(LinearCrossEntropy, GivesOnlyTheGradientsThatAreAskedFor) {
  const Tensor x = tensor({{1.0, -2.0}, {0.5, 3.0}});
  const Tensor w = tensor({{0.5, 1.0}, {-1.0, 2.0}, {0.0, 0.25}}).requires_grad_();
  linear_cross_entropy(x, w, tensor({2, 0})).backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(w.grad().defined());
}

TEST(LinearCrossEntropy, OfNoRowsIsThatOfPyTorch) {
  const Tensor w = ones({3, 2}).requires_grad_();
  const Tensor none = empty({0}, {.dtype = DType::kI64});
  EXPECT_EQ(linear_cross_entropy(zeros({0, 2}), w, none, {}, {.reduction = Reduction::kSum})
                .item<float>(),
            0);
  EXPECT_TRUE(std::isnan(linear_cross_entropy(zeros({0, 2}), w, none).item<float>()));
  const Tensor ignored = full({4}, kIgnoreIndex, {.dtype = DType::kI64});
  EXPECT_TRUE(std::isnan(linear_cross_entropy(zeros({4, 2}), w, ignored).item<float>()));
}

TEST(LinearCrossEntropy, IsComputedInFloat32UnderAutocast) {
  const Tensor x = tensor({{1.0F, -2.0F}}).to(DType::kBF16);
  const Tensor w = tensor({{0.5F, 1.0F}, {-1.0F, 2.0F}});
  const autocast guard(DeviceType::kCPU);
  EXPECT_EQ(linear_cross_entropy(x, w, tensor({1})).dtype(), DType::kF32);
}

TEST(LinearCrossEntropy, SaysWhatCameAndWhatWasWanted) {
  const Tensor x = zeros({2, 3});
  const Tensor w = zeros({4, 3});
  const Tensor t = tensor({1, 2});
  EXPECT_ERROR(linear_cross_entropy(zeros({2, 3, 1}), w, t), kShape,
               "linear_cross_entropy: the input has shape [2, 3, 1], wanted [N, in] or [in]");
  EXPECT_ERROR(linear_cross_entropy(x, zeros({4, 2}), t), kShape,
               "linear_cross_entropy: the linear weight has shape [4, 2], wanted [C, 3] or [C, "
               "d..., 3] for an input of shape [2, 3]");
  EXPECT_ERROR(linear_cross_entropy(zeros({3}), zeros({4, 2, 3}), t), kShape,
               "linear_cross_entropy: the input has shape [3], wanted [N, 3] for a linear weight "
               "of shape [4, 2, 3]");
  EXPECT_ERROR(linear_cross_entropy(x, w, t, zeros({3})), kShape,
               "linear_cross_entropy: the linear bias has shape [3], wanted [4]");
  EXPECT_ERROR(linear_cross_entropy(x, w.to(DType::kF64), t), kDType,
               "linear_cross_entropy: the linear weight is float64, but the input is float32");
  EXPECT_ERROR(linear_cross_entropy(x, w, t.to(DType::kI32)), kDType,
               "linear_cross_entropy: the target is int32, wanted int64 class numbers");
  EXPECT_ERROR(linear_cross_entropy(x, w, tensor({1, 2, 3})), kShape,
               "linear_cross_entropy: the target has shape [3], wanted [2] for an input of shape "
               "[2, 3]");
  EXPECT_ERROR(linear_cross_entropy(x, w, tensor({1, 4})), kIndex,
               "linear_cross_entropy: target[1] is 4, wanted a class in [0, 4) or -100 for a row "
               "to ignore");
  EXPECT_ERROR(linear_cross_entropy(x, w, t, {}, {.weight = ones({3})}), kShape,
               "linear_cross_entropy: the weight has shape [3], wanted [4], one of each class");
  EXPECT_ERROR(linear_cross_entropy(x, w, t, {}, {.label_smoothing = 2}), kInvalidArgument,
               "linear_cross_entropy: label_smoothing is 2, wanted a share, 0 to 1");
}

TEST(LinearCrossEntropyLossModule, IsTheFunctionOfItsLayer) {
  const LinearCrossEntropyLoss loss(3, 5, {.out_features = {2}, .bias = true, .weight = rand({5})});
  const Tensor x = randn({4, 3});
  const Tensor target = tensor({{1, 2}, {0, 4}, {3, 3}, {2, 1}});
  const Tensor wanted =
      linear_cross_entropy(x, loss.linear.weight.view({5, 2, 3}), target,
                           loss.linear.bias.view({5, 2}), {.weight = loss.options.weight});
  const Tensor got = loss(x, target);
  EXPECT_EQ(got.item<float>(), wanted.item<float>());
  got.backward();
  EXPECT_EQ(loss.linear.weight.grad().sizes(), (Shape{10, 3}));
  EXPECT_EQ(loss.linear.bias.grad().sizes(), Shape{10});
}

TEST(LinearCrossEntropyLossModule, HasTheNamesOfPyTorch) {
  const LinearCrossEntropyLoss loss(3, 5, {.bias = true, .weight = ones({5})});
  std::string names;
  for (const NamedTensor& entry : loss.state_dict()) names += entry.name + " ";
  EXPECT_EQ(names, "weight linear.weight linear.bias ");
  EXPECT_EQ(loss.extra_repr(),
            "in_features=3, num_classes=5, out_features=(), bias=True, reduction=mean, "
            "ignore_index=-100, label_smoothing=0.0");
  EXPECT_ERROR(LinearCrossEntropyLoss(3, 5, {.weight = ones({4})}), kShape,
               "LinearCrossEntropyLoss: the weight has shape [4], wanted [5]");
  EXPECT_ERROR(LinearCrossEntropyLoss(3, 5, {.label_smoothing = -0.5}), kInvalidArgument,
               "LinearCrossEntropyLoss: label_smoothing is -0.5, wanted a share, 0 to 1");
  EXPECT_ERROR(LinearCrossEntropyLoss(3, 5, {.out_features = {-2, -2}}), kInvalidArgument,
               "LinearCrossEntropyLoss: out_features is [-2, -2], wanted sizes of 0 or more");
  EXPECT_ERROR(LinearCrossEntropyLoss(3, -5), kInvalidArgument,
               "LinearCrossEntropyLoss: num_classes is -5, wanted 0 or more");
}

}  // namespace
}  // namespace dl::nn
