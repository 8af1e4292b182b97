// Losses and batches of products on a GPU against the CPU.
#include "core/ops/loss/loss.h"

#include "core/base/error.h"
#include "core/elementwise/losses.h"
#include "core/ops/linear/linear.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudaLoss : public OnDevice {};

// A log probability is a difference of numbers of this size, and so is its gradient.
constexpr Rounding kOfLoss{.times = 4};
constexpr Reduction kReductions[] = {Reduction::kNone, Reduction::kMean, Reduction::kSum};

struct ClassCase {
  Shape scores;
  Shape target;
};
const std::vector<ClassCase> kClasses = {
    {{7, 5}, {7}}, {{3, 40, 6}, {3, 6}}, {{4, 1}, {4}}, {{2, 3, 5, 7}, {2, 5, 7}}, {{9}, {}}};

// Classes in [0, classes), of which some are to be ignored.
Tensor targets(const Shape& shape, std::int64_t classes, std::int64_t ignored) {
  Generator generator(5);
  const Tensor all = randint(0, classes, shape, {}, generator);
  auto* const each = all.data<std::int64_t>();
  for (std::int64_t i = 1; i < all.numel(); i += 5) each[i] = ignored;
  return all;
}

TEST_F(CudaLoss, OfClasses) {
  for (const ClassCase& c : kClasses) {
    const std::int64_t classes = c.scores[c.scores.size() == 1 ? 0 : 1];
    const auto terms = static_cast<double>(numbers(c.scores).numel());
    for (const Reduction reduction : kReductions) {
      for (const double smoothing : {0.0, 0.2}) {
        compare(
            "cross_entropy " + c.scores.str(),
            [&](const Inputs& in) {
              return cross_entropy(in[0], in[2],
                                   {.weight = in[1].detach(),
                                    .ignore_index = -7,
                                    .reduction = reduction,
                                    .label_smoothing = smoothing});
            },
            {numbers(c.scores), positive({classes}), targets(c.target, classes, -7)}, terms,
            kAllFloats, kOfLoss);
      }
      compare(
          "nll_loss " + c.scores.str(),
          [&](const Inputs& in) { return nll_loss(in[0], in[1], {.reduction = reduction}); },
          {numbers(c.scores), targets(c.target, classes, kIgnoreIndex)}, terms, kAllFloats,
          kOfLoss);
    }
  }
}

// More targets than blocks have lines.
TEST_F(CudaLoss, OfManyTargets) {
  compare(
      "cross_entropy of many",
      [](const Inputs& in) { return cross_entropy(in[0], in[1], {.label_smoothing = 0.2}); },
      {numbers({600, 300}), targets({600}, 300, kIgnoreIndex)}, 600 * 300,
      {DType::kF32, DType::kBF16}, kOfLoss);
}

TEST_F(CudaLoss, WithoutTargetsThatCountIsThatOfTheCPU) {
  for (const double smoothing : {0.0, 0.5}) {
    for (const Reduction reduction : kReductions) {
      for (const std::int64_t rows : {0, 3}) {
        const CrossEntropyLossOptions options{.reduction = reduction, .label_smoothing = smoothing};
        const Tensor scores = numbers({rows, 4});
        const Tensor none = full({rows}, kIgnoreIndex, {.dtype = DType::kI64});
        expect_same(cross_entropy(scores.to(kGPU), none.to(kGPU), options),
                    cross_entropy(scores, none, options), "no targets");
      }
    }
  }
}

TEST_F(CudaLoss, OfALinearLayer) {
  struct Case {
    std::int64_t rows, in, classes;
  };
  for (const Case& c : {Case{6, 3, 4}, Case{130, 8, 17}, Case{1, 1, 1}}) {
    for (const Reduction reduction : kReductions) {
      compare(
          "linear_cross_entropy",
          [&](const Inputs& in) {
            return linear_cross_entropy(
                in[0], in[1], in[4], in[2],
                {.weight = in[3].detach(), .reduction = reduction, .label_smoothing = 0.1});
          },
          {numbers({c.rows, c.in}), numbers({c.classes, c.in}, 2), numbers({c.classes}, 3),
           positive({c.classes}), targets({c.rows}, c.classes, kIgnoreIndex)},
          static_cast<double>(c.rows * c.classes), kAllFloats, kOfLoss);
    }
  }
}

Tensor pair_loss_of(PairLoss fn, const Tensor& x, const Tensor& t, double a, const Tensor& weight,
                    Reduction reduction) {
  switch (fn) {
    case PairLoss::kMse:
      return mse_loss(x, t, {.reduction = reduction});
    case PairLoss::kL1:
      return l1_loss(x, t, {.reduction = reduction});
    case PairLoss::kSmoothL1:
      return smooth_l1_loss(x, t, {.reduction = reduction, .beta = a});
    case PairLoss::kHuber:
      return huber_loss(x, t, {.reduction = reduction, .delta = a});
    case PairLoss::kBce:
      return binary_cross_entropy(x, t, {.weight = weight, .reduction = reduction});
    case PairLoss::kBceWithLogits:
      return binary_cross_entropy_with_logits(
          x, t, {.weight = weight, .reduction = reduction, .pos_weight = weight});
    case PairLoss::kKlDiv:
    case PairLoss::kKlDivLog:
      return kl_div(x, t, {.reduction = reduction, .log_target = fn == PairLoss::kKlDivLog});
  }
  return {};
}

TEST_F(CudaLoss, OfTwoElements) {
  for (const PairLossFacts& row : kPairLossFacts) {
    for (const Shape& shape : {Shape{5, 7}, Shape{}, Shape{40, 51}}) {
      Generator generator(3);
      const auto between = [&](double low, double high) {
        return add(mul(rand(shape, {}, generator), high - low), low);
      };
      const Inputs inputs{between(row.low, row.high), between(row.target_low, row.target_high),
                          positive(shape)};
      for (const Reduction reduction : kReductions) {
        compare(
            std::string(row.name) + " " + shape.str(),
            [&](const Inputs& in) {
              return pair_loss_of(row.fn, in[0], in[1], row.a, in[2].detach(), reduction);
            },
            inputs, static_cast<double>(inputs[0].numel()), kAllFloats, kOfLoss);
      }
    }
  }
}

TEST_F(CudaLoss, OfPathsThroughLabels) {
  const Tensor steps = tensor({9, 0, 7, 3, 2}, {.dtype = DType::kI64});
  const Tensor counts = tensor({4, 0, 0, 2, 2}, {.dtype = DType::kI64});
  // The last sample has more labels than steps can say: two of one class take three steps.
  const Tensor labels =
      tensor({{1, 1, 2, 1}, {3, 3, 3, 3}, {1, 2, 3, 1}, {2, 3, 1, 1}, {2, 2, 1, 1}},
             {.dtype = DType::kI64});
  for (const bool zero_infinity : {true, false}) {
    for (const Reduction reduction : kReductions) {
      compare(
          "ctc_loss",
          [&](const Inputs& in) {
            return ctc_loss(log_softmax(in[0], 2), in[1], steps, counts,
                            {.reduction = reduction, .zero_infinity = zero_infinity});
          },
          {numbers({9, 5, 300}), labels}, 9 * 300, {DType::kF32, DType::kF64}, kOfLoss);
    }
  }
  // Labels one after another, of which one is the blank's class, and more places than threads.
  Generator generator(8);
  compare(
      "ctc_loss of a long sample",
      [&](const Inputs& in) {
        return ctc_loss(log_softmax(in[0], 2), in[1], tensor({400, 350}, {.dtype = DType::kI64}),
                        tensor({150, 3}, {.dtype = DType::kI64}), {.blank = 4});
      },
      {numbers({400, 2, 5}), randint(0, 5, {153}, {}, generator)}, 400 * 300,
      {DType::kF32, DType::kF64}, kOfLoss);
}

TEST_F(CudaLoss, BadTargetsAreReported) {
  const Tensor scores = numbers({3, 4}).to(kGPU);
  const Tensor bad = tensor({0, 4, 1}, {.dtype = DType::kI64}).to(kGPU);
  constexpr const char* kText =
      "nll_loss: element 1 of the index is 4, wanted a number in [0, 4) (found by the device, some "
      "operations ago)";
  EXPECT_ERROR(nll_loss(scores, bad).item<float>(), kIndex, kText);
  EXPECT_ERROR(linear_cross_entropy(scores, numbers({2, 4}).to(kGPU), bad).item<float>(), kIndex,
               "nll_loss: element 1 of the index is 4, wanted a number in [0, 2) (found by the "
               "device, some operations ago)");
  const Tensor shares = tensor({0.5F, 1.5F}).to(kGPU);
  EXPECT_ERROR(binary_cross_entropy(shares, shares).item<float>(), kInvalidArgument,
               "binary_cross_entropy: element 1 is 1.5, wanted a probability of [0, 1] (found by "
               "the device, "
               "some operations ago)");
}

TEST_F(CudaLoss, OfTheSameNumbersHasTheSameBits) {
  const Tensor scores = numbers({300, 100}).to(kGPU);
  const Tensor classes = targets({300}, 100, kIgnoreIndex).to(kGPU);
  const auto loss = [&] {
    return cross_entropy(scores, classes, {.label_smoothing = 0.1}).to(Device{});
  };
  const Tensor first = loss();
  for (int i = 0; i < 5; ++i) expect_same(loss(), first, "cross_entropy");
}

TEST_F(CudaLoss, BatchesOfProducts) {
  struct Case {
    Shape a, b;
  };
  for (const Case& c :
       {Case{{3, 4, 5}, {3, 5, 6}}, Case{{2, 3, 4, 5}, {2, 3, 5, 6}}, Case{{2, 1, 4, 5}, {3, 5, 6}},
        Case{{4, 5}, {7, 5, 2}}, Case{{3, 1, 1}, {3, 1, 1}}, Case{{3, 2, 0}, {3, 0, 4}},
        Case{{0, 2, 3}, {0, 3, 4}}, Case{{5, 33, 65}, {5, 65, 17}}}) {
    const auto k = static_cast<double>(c.a.back());
    compare(
        "matmul " + c.a.str() + c.b.str(), [](const Inputs& in) { return matmul(in[0], in[1]); },
        {numbers(c.a), numbers(c.b, 2)}, std::max(1.0, 4 * k));
    compare(
        "matmul of transposes " + c.a.str() + c.b.str(),
        [](const Inputs& in) {
          return matmul(mT(mT(in[0]).contiguous()), mT(mT(in[1]).contiguous()));
        },
        {numbers(c.a), numbers(c.b, 2)}, std::max(1.0, 4 * k));
  }
}

}  // namespace
}  // namespace dl::testing
