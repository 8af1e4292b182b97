// The gradient checks of a network's operations: convolution, pooling, products and losses.
#include <gtest/gtest.h>

#include "core/elementwise/losses.h"
#include "core/ops/conv/conv.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/softmax/softmax.h"
#include "tests/core/ops/gradcheck_cases.h"
#include "tests/core/ops/random_tensor.h"

namespace dl::testing {
namespace {

using Inputs = std::vector<Tensor>;

Tensor leaf(const Shape& shape, std::uint64_t seed) {
  return random_tensor(shape, DType::kF64, seed).requires_grad_();
}

void expect_right(std::string_view what, const std::function<Tensor(const Inputs&)>& f,
                  const Inputs& inputs) {
  check_second(what, f, inputs);
  try {
    gradcheck(what, f, inputs);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace

void gradcheck_conv2d() {
  for (const Conv2dArgs& args : {Conv2dArgs{}, Conv2dArgs{.stride = {2, 1}, .padding = {1, 2}},
                                 Conv2dArgs{.dilation = {2, 1}}, Conv2dArgs{.relu = true}}) {
    const auto f = [&](const Inputs& in) { return conv2d(in[0], in[1], in[2], args); };
    expect_right("conv2d", f, {leaf({2, 2, 5, 4}, 1), leaf({3, 2, 3, 2}, 2), leaf({3}, 3)});
  }
  const auto grouped = [](const Inputs& in) { return conv2d(in[0], in[1], {}, {.groups = 2}); };
  expect_right("conv2d", grouped, {leaf({1, 4, 4, 4}, 1), leaf({6, 2, 2, 2}, 2)});
  const auto from_view = [](const Inputs& in) { return conv2d(in[0].transpose(2, 3), in[1]); };
  expect_right("conv2d", from_view, {leaf({1, 2, 4, 5}, 1), leaf({2, 2, 2, 2}, 2)});
}

void gradcheck_max_pool2d() {
  for (const MaxPool2dArgs& args :
       {MaxPool2dArgs{.kernel = {2, 2}, .stride = {2, 2}},
        MaxPool2dArgs{.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}},
        MaxPool2dArgs{.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true},
        MaxPool2dArgs{.kernel = {2, 2}, .stride = {2, 2}, .relu = true}}) {
    const auto f = [&](const Inputs& in) { return max_pool2d(in[0], args); };
    expect_right("max_pool2d", f, {leaf({2, 3, 5, 6}, 1)});
  }
}

void gradcheck_matmul() {
  const auto f = [](const Inputs& in) { return matmul(in[0], in[1]); };
  expect_right("matmul", f, {leaf({3, 4}, 1), leaf({4, 2}, 2)});
  expect_right("matmul", f, {leaf({2, 1, 3, 4}, 1), leaf({3, 4, 2}, 2)});
  expect_right("matmul", f, {leaf({4}, 1), leaf({4}, 2)});
  expect_right("matmul", f, {leaf({2, 3, 4}, 1), leaf({4}, 2)});
  expect_right("matmul", f, {leaf({2, 0}, 1), leaf({0, 3}, 2)});
  const auto turned = [](const Inputs& in) { return matmul(in[0].t(), in[1].t()); };
  expect_right("matmul", turned, {leaf({4, 3}, 1), leaf({2, 4}, 2)});
}

void gradcheck_linear() {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh}) {
    const auto f = [&](const Inputs& in) {
      return linear(in[0], in[1], in[2], {.activation = activation});
    };
    expect_right("linear", f, {leaf({3, 4}, 1), leaf({2, 4}, 2), leaf({2}, 3)});
    expect_right("linear", f, {leaf({2, 3, 4}, 1), leaf({2, 4}, 2), leaf({2}, 3)});
  }
  const auto without_bias = [](const Inputs& in) { return linear(in[0], in[1]); };
  expect_right("linear", without_bias, {leaf({4}, 1), leaf({2, 4}, 2)});
}

void gradcheck_cross_entropy() {
  const Tensor target = tensor({1, 0, -100, 2});
  const auto f = [&](const Inputs& in) { return cross_entropy(in[0], target); };
  expect_right("cross_entropy", f, {leaf({4, 3}, 1)});
  const auto turned = [&](const Inputs& in) { return cross_entropy(in[0].t(), target); };
  expect_right("cross_entropy", turned, {leaf({3, 4}, 1)});
}

void gradcheck_mse_loss() {
  const auto f = [](const Inputs& in) { return mse_loss(in[0], in[1]); };
  expect_right("mse_loss", f, {leaf({3, 4}, 1), leaf({3, 4}, 2)});
  const auto turned = [](const Inputs& in) { return mse_loss(in[0].t(), in[1]); };
  expect_right("mse_loss", turned, {leaf({4, 3}, 1), leaf({3, 4}, 2)});
}

void gradcheck_nll_loss() {
  const Tensor target = tensor({1, 0, -100, 2});
  const Tensor weight = tensor({0.5, 2.0, 1.0}, {.dtype = DType::kF64});
  for (const Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum}) {
    const auto f = [&](const Inputs& in) {
      return nll_loss(in[0], target, {.weight = weight, .reduction = reduction});
    };
    expect_right("nll_loss", f, {leaf({4, 3}, 1)});
    const auto smooth = [&](const Inputs& in) {
      return cross_entropy(in[0], target.view({2, 2}),
                           {.weight = weight, .reduction = reduction, .label_smoothing = 0.2});
    };
    expect_right("cross_entropy", smooth, {leaf({2, 3, 2}, 1)});
  }
}

// The loss assumes that its input comes from log_softmax, so the check goes through both.
void gradcheck_ctc_loss() {
  const Tensor targets = tensor({{1, 2}, {2, 2}});
  for (const Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum}) {
    const auto f = [&](const Inputs& in) {
      return ctc_loss(log_softmax(in[0], 2), targets, tensor({5, 4}), tensor({2, 2}),
                      {.reduction = reduction});
    };
    expect_right("ctc_loss", f, {leaf({5, 2, 3}, 1)});
  }
}

void gradcheck_linear_cross_entropy() {
  const Tensor weight = positive_numbers({4}).detach();
  for (const Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum}) {
    const auto f = [&](const Inputs& in) {
      return linear_cross_entropy(
          in[0], in[1], tensor({1, -100, 3}), in[2],
          {.weight = weight, .reduction = reduction, .label_smoothing = 0.1});
    };
    expect_right("linear_cross_entropy", f, {leaf({3, 2}, 1), leaf({4, 2}, 2), leaf({4}, 3)});
  }
}

void gradcheck_batch_norm_relu() {
  for (const bool training : {true, false}) {
    const auto f = [&](const Inputs& in) {
      return batch_norm_relu(in[0], zeros({3}, {.dtype = DType::kF64}),
                             ones({3}, {.dtype = DType::kF64}), in[1], in[2],
                             {.training = training}, in.size() > 3 ? in[3] : Tensor());
    };
    expect_right("batch_norm_relu", f, {leaf({4, 3}, 1), leaf({3}, 2), leaf({3}, 3)});
    expect_right("batch_norm_relu", f,
                 {leaf({4, 3}, 1), leaf({3}, 2), leaf({3}, 3), leaf({4, 3}, 4)});
  }
}

void gradcheck_batch_norm() {
  for (const bool training : {true, false}) {
    const auto f = [&](const Inputs& in) {
      return batch_norm(in[0], zeros({3}, {.dtype = DType::kF64}),
                        ones({3}, {.dtype = DType::kF64}), in[1], in[2], {.training = training});
    };
    expect_right("batch_norm", f, {leaf({4, 3}, 1), leaf({3}, 2), leaf({3}, 3)});
    expect_right("batch_norm", f, {leaf({2, 3, 2, 2}, 1), leaf({3}, 2), leaf({3}, 3)});
  }
}

TEST(Gradcheck, row_norm) {
  const auto layer = [](const Inputs& in) { return layer_norm(in[0], {2, 3}, in[1], in[2]); };
  expect_right("layer_norm", layer, {leaf({4, 2, 3}, 1), leaf({2, 3}, 2), leaf({2, 3}, 3)});
  const auto rms = [](const Inputs& in) { return rms_norm(in[0], {5}, in[1]); };
  expect_right("rms_norm", rms, {leaf({4, 5}, 1), leaf({5}, 2)});
  const auto group = [](const Inputs& in) { return group_norm(in[0], 2, in[1], in[2]); };
  expect_right("group_norm", group, {leaf({3, 4, 2}, 1), leaf({4}, 2), leaf({4}, 3)});
}

TEST(Gradcheck, pair_loss) {
  const auto apply = [](PairLoss fn, const Inputs& in, Reduction reduction, double a) {
    switch (fn) {
      case PairLoss::kMse:
        return mse_loss(in[0], in[1], {reduction});
      case PairLoss::kL1:
        return l1_loss(in[0], in[1], {reduction});
      case PairLoss::kSmoothL1:
        return smooth_l1_loss(in[0], in[1], {reduction, a});
      case PairLoss::kHuber:
        return huber_loss(in[0], in[1], {reduction, a});
      case PairLoss::kBce:
        return binary_cross_entropy(in[0], in[1], {.reduction = reduction});
      case PairLoss::kBceWithLogits:
        return binary_cross_entropy_with_logits(in[0], in[1], {.reduction = reduction});
      case PairLoss::kKlDiv:
        return kl_div(in[0], in[1], {.reduction = reduction});
      case PairLoss::kKlDivLog:
        return kl_div(in[0], in[1], {.reduction = reduction, .log_target = true});
    }
    return Tensor();
  };
  for (const PairLossFacts& row : kPairLossFacts) {
    for (const Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum}) {
      const auto between = [](const Shape& shape, double low, double high, std::uint64_t seed) {
        Tensor x = random_tensor(shape, DType::kF64, seed);
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          double& value = x.data<double>()[i];
          value = low + (value + 1) / 2 * (high - low);
        }
        return x.requires_grad_();
      };
      const auto f = [&](const Inputs& in) { return apply(row.fn, in, reduction, row.a); };
      expect_right(row.name, f,
                   {between({3, 4}, row.low, row.high, 1),
                    between({3, 4}, row.target_low, row.target_high, 2)});
      expect_right(
          row.name, f,
          {between({37}, row.low, row.high, 3), between({37}, row.target_low, row.target_high, 4)});
    }
  }
}

TEST(Gradcheck, cosine_similarity) {
  const auto f = [](const Inputs& in) { return cosine_similarity(in[0], in[1]); };
  expect_right("cosine_similarity", f, {leaf({3, 4}, 1), leaf({3, 4}, 2)});
  expect_right("cosine_similarity", f, {leaf({2, 3, 2}, 1), leaf({3, 1}, 2)});
  const Tensor target = tensor({1, -1, -1});
  const auto loss = [&](const Inputs& in) {
    return cosine_embedding_loss(in[0], in[1], target, {.margin = -0.3});
  };
  expect_right("cosine_embedding_loss", loss, {leaf({3, 4}, 1), leaf({3, 4}, 2)});
}

}  // namespace dl::testing
