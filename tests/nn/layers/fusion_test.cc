// A Sequential that computes two modules in one pass must give the bits of the modules one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/shape/shape.h"
#include "nn/module/sequential.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

// Output, gradient of the input and gradients of all parameters, one after another.
std::vector<float> all_values(Module& model, const Tensor& input, bool one_by_one) {
  const Tensor x = input.detach().clone().requires_grad_();
  model.zero_grad();
  Tensor y = x;
  if (one_by_one) {
    for (const NamedModule& child : model.named_children()) y = child.module->forward(y);
  } else {
    y = model(x);
  }
  y.backward(ones_like(y));
  std::vector<float> result = values<float>(y);
  for (const Tensor& p : model.parameters()) {
    const auto grad = values<float>(p.grad());
    result.insert(result.end(), grad.begin(), grad.end());
  }
  const auto grad = values<float>(x.grad());
  result.insert(result.end(), grad.begin(), grad.end());
  return result;
}

void expect_same_bits(Sequential model, const Shape& input) {
  const Tensor x = randn(input);
  EXPECT_EQ(all_values(model, x, false), all_values(model, x, true)) << model.str();
}

TEST(SequentialFusion, KeepsTheBits) {
  manual_seed(1);
  expect_same_bits({Linear(7, 5), ReLU(), Linear(5, 3)}, {4, 7});
  expect_same_bits({Linear(7, 5), ReLU({.inplace = true})}, {4, 7});
  expect_same_bits({Linear(7, 5), ReLU(), Linear(5, 6), ReLU(), Linear(6, 3)}, {4, 7});
  expect_same_bits({Linear(7, 8), GELU({.approximate = "tanh"}), Linear(8, 3)}, {4, 7});
  expect_same_bits({Linear(7, 8), GELU(), Linear(8, 3), GELU({.approximate = "tanh"})}, {4, 7});
  expect_same_bits({Conv2d(3, 8, 3, {.padding = 1}), ReLU()}, {2, 3, 6, 5});
  expect_same_bits({Conv2d(3, 8, 3), ReLU(), MaxPool2d(2)}, {2, 3, 9, 8});
  expect_same_bits({Conv2d(3, 5, 3), BatchNorm2d(5), ReLU(), Conv2d(5, 4, 1), BatchNorm2d(4)},
                   {2, 3, 6, 5});
  expect_same_bits({Linear(7, 5), BatchNorm1d(5), ReLU({.inplace = true})}, {4, 7});
  expect_same_bits({BatchNorm2d(4), ReLU(), MaxPool2d(2)}, {2, 4, 4, 4});
  expect_same_bits({ReLU(), MaxPool2d(3, {.stride = 1, .padding = 1})}, {2, 4, 5, 5});
  expect_same_bits({MaxPool2d(2), ReLU(), ReLU(), Flatten(), Linear(4, 2, {.bias = false})},
                   {2, 1, 4, 4});
}

// If a run diverges, its loss must show it.
// PyTorch's pooling saves its input, so that its output may be written.
TEST(SequentialFusion, PooledReluMayBeChangedInPlace) {
  const Tensor x = tensor({-1, 2, 3, -4}).to(DType::kF32).view({1, 1, 2, 2}).requires_grad_();
  Sequential model{ReLU(), MaxPool2d(2), ReLU({.inplace = true})};
  model(x).sum().backward();
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{0, 0, 1, 0}));
  Tensor y = Sequential{ReLU(), MaxPool2d(2)}(x);
  y.mul_(2);
  y.sum().backward();
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{0, 0, 3, 0}));
}

TEST(SequentialFusion, KeepsNaN) {
  const auto expect_same_places = [](Sequential model, const Shape& shape) {
    const Tensor x = randn(shape);
    x.view({-1}).narrow(0, x.numel() / 2, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    const auto is_nan = [&](bool one_by_one) {
      std::vector<bool> result;
      for (const float v : all_values(model, x, one_by_one)) result.push_back(std::isnan(v));
      return result;
    };
    const std::vector<bool> fused = is_nan(false);
    EXPECT_EQ(fused, is_nan(true)) << model.str();
    EXPECT_NE(std::ranges::find(fused, true), fused.end()) << model.str();
  };
  expect_same_places({Linear(7, 5), ReLU()}, {4, 7});
  expect_same_places({Conv2d(8, 16, 3, {.stride = 2}), ReLU()}, {2, 8, 7, 7});
  expect_same_places({Conv2d(8, 16, 1), ReLU()}, {2, 8, 4, 4});
  expect_same_places({Conv2d(8, 16, 3, {.padding = 1}), ReLU()}, {1, 8, 4, 4});
  expect_same_places({ReLU(), MaxPool2d(2)}, {2, 8, 4, 4});
}

TEST(SequentialFusion, LeavesDerivedClassesAlone) {
  struct Doubled : Linear {
    using Linear::Linear;
    Tensor forward(const Tensor& input) override { return Linear::forward(input) * 2; }
  };
  Sequential model{Doubled(2, 1, {.bias = false}), ReLU()};
  Tensor& weight = model.get_parameter("0.weight");
  weight.detach().fill_(1);
  EXPECT_EQ(values<float>(model(tensor({{3.0, 4.0}}))), std::vector<float>{14});

  struct Leaky : ReLU {
    Tensor forward(const Tensor& input) override { return input * 0.5; }
  };
  Sequential leaky{Linear(2, 1, {.bias = false}), Leaky()};
  leaky.get_parameter("0.weight").detach().fill_(-1);
  EXPECT_EQ(values<float>(leaky(tensor({{3.0, 4.0}}))), std::vector<float>{-3.5});
}

// A module of the user's takes part as the library's own do, in any container.
TEST(Fusion, ReachesModulesAndContainersOfTheUser) {
  struct Negate : Module {
    Tensor forward(const Tensor& input) override { return input * -1; }
    bool can_fuse(const Fusion& fusion) const override {
      return fusion.before == Activation::kNone && fusion.after == Activation::kRelu;
    }
    Tensor forward_fused(const Tensor& input, const Fusion&) override {
      ++fused;
      return relu(input * -1);
    }
    int fused = 0;
  };
  Negate negate;
  ReLU relu;
  MaxPool2d pool(2);
  Module* const both[] = {&negate, &relu};
  EXPECT_EQ(values<float>(forward_chain(both, tensor({-3.0, 4.0}))), (std::vector<float>{3, 0}));
  EXPECT_EQ(negate.fused, 1);
  // The pooling after a ReLU takes it.
  Module* const with_pool[] = {&negate, &relu, &pool};
  EXPECT_EQ(values<float>(
                forward_chain(with_pool, tensor({{-3.0, 4.0}, {-5.0, 6.0}}).view({1, 1, 2, 2}))),
            std::vector<float>{5});
  EXPECT_EQ(negate.fused, 1);
}

TEST(Fusion, IsRefusedByAModuleThatCannotFuse) {
  EXPECT_THROW(Flatten().forward_fused(ones({1}), {.after = Activation::kRelu}), Error);
  EXPECT_THROW(Conv2d(1, 1, 1).forward_fused(ones({1, 1, 1, 1}), {.after = Activation::kGeluTanh}),
               Error);
  EXPECT_THROW(MaxPool2d(1).forward_fused(ones({1, 1, 1, 1}), {.after = Activation::kRelu}), Error);
  EXPECT_THROW(Linear(1, 1).forward_fused(ones({1}), {.before = Activation::kRelu}), Error);
}

}  // namespace
}  // namespace dl::nn
