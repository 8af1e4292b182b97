// What goes into a compiled function and out of it: results and inputs that share memory, changes
// in place, and what the program changes between calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/compile/same_bits.h"

namespace dl {
namespace {

using testing::HasSubstr;

// A convolution computes channels-last; a view of its result shows the elements in order.
TEST(CompileEdges, ViewsOfAnImageKeepTheirOrder) {
  manual_seed(1);
  nn::Conv2d conv(3, 4, 3, {.padding = 1});
  const std::vector<std::function<Tensor(const Tensor&)>> views = {
      [](const Tensor& y) { return y; },
      [](const Tensor& y) { return y.flatten(); },
      [](const Tensor& y) { return y.detach().flatten(1); },
      [](const Tensor& y) { return y.view({2, -1}); },
      [](const Tensor& y) { return y.relu().reshape({-1}); },
      [](const Tensor& y) { return y[0]; },
      [](const Tensor& y) { return nn::functional::max_pool2d(y, 2).flatten(1); },
  };
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto function = [&](const Tensor& x) { return views[i](conv(x)); };
    auto compiled = compile(function, {.whole = true});
    const NoGradGuard no_grad;
    for (int call = 0; call < 8; ++call) {
      const Tensor x = randn({2, 3, 5, 6});
      EXPECT_TRUE(same_bits(compiled(x), function(x))) << "view " << i << ", call " << call;
    }
    EXPECT_EQ(compiled.summary().replays, 4);
  }
}

// It begins behind the last element of its block.
TEST(CompileEdges, AViewOfNoElementsIsThatOfItsBlock) {
  const auto function = [](const Tensor& x) {
    const Tensor twice = x * 2.0;
    return cat({twice.narrow(0, 3, 0), twice.narrow(0, 0, 2)}, 0);
  };
  auto compiled = compile(function, {.whole = true, .checks = 5});
  const NoGradGuard no_grad;
  std::vector<Tensor> kept;  // so that each call's tensors are elsewhere
  for (int call = 0; call < 12; ++call) {
    for (int i = 0; i < 3; ++i) kept.push_back(zeros({3, 4}));
    const Tensor x = randn({3, 4});
    EXPECT_TRUE(same_bits(compiled(x), function(x))) << call;
  }
  EXPECT_EQ(compiled.summary().replays, 6);
}

TEST(CompileEdges, AnIndexMayBeAConstant) {
  const auto function = [](const Tensor& x) {
    return x.index({"...", tensor({std::int64_t{2}, std::int64_t{0}})}) * 2.0;
  };
  auto compiled = compile(function, {.whole = true});
  const NoGradGuard no_grad;
  for (int call = 0; call < 6; ++call) {
    const Tensor x = randn({3, 4});
    EXPECT_TRUE(same_bits(compiled(x), function(x))) << call;
  }
  EXPECT_EQ(compiled.summary().replays, 2);
}

TEST(CompileEdges, ResultsThatAreInputsOrBuffersAreCopies) {
  const Tensor buffer = zeros({3});
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [](const Tensor& x) { return x; },
      [](const Tensor& x) { return x.view({3, 1}); },
      [](const Tensor& x) { return x.detach(); },
      [&](const Tensor& x) {
        Tensor(buffer).copy_(x);
        return buffer;
      },
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    auto compiled = compile(functions[i], {.whole = true});
    const NoGradGuard no_grad;
    std::vector<Tensor> kept;
    for (int call = 0; call < 8; ++call) kept.push_back(compiled(full({3}, call)));
    for (int call = 0; call < 8; ++call) {
      const Tensor& of_call = kept[static_cast<std::size_t>(call)];
      EXPECT_EQ(of_call.flatten()[1].item<float>(), static_cast<float>(call)) << "function " << i;
    }
  }
}

TEST(CompileEdges, AnInputThatIsChangedInPlaceIsNamed) {
  auto compiled = compile([](Tensor x) { return x.add_(1.0) * 2.0; });
  auto whole = compile([](Tensor x) { return x.add_(1.0) * 2.0; }, {.whole = true});
  const NoGradGuard no_grad;
  const Tensor x = zeros({3});
  for (int call = 1; call < 8; ++call) {
    EXPECT_EQ(compiled(x)[0].item<float>(), static_cast<float>(2 * call));
    EXPECT_EQ(x[2].item<float>(), static_cast<float>(call)) << "the caller's tensor";
  }
  EXPECT_THAT(compiled.summary().why_not, HasSubstr("input 1 is changed in place"));
  // Each call is an error.
  for (int call = 0; call < 3; ++call) EXPECT_THROW(whole(x), Error);
}

// The losses of a training with a penalty on the gradient by the input, and the weight after it.
std::vector<Tensor> train_with_penalty(bool compiled, CompileSummary* summary) {
  manual_seed(4);
  nn::Conv2d conv(1, 2, 3, {.stride = 2});
  nn::Linear line(2 * 3 * 3, 1);
  std::vector<Tensor> parameters = conv.parameters();
  for (const Tensor& each : line.parameters()) parameters.push_back(each);
  optim::SGD optimizer(parameters, {.lr = 0.01});
  const auto function = [&](const Tensor& images) {
    optimizer.zero_grad();
    const Tensor x = images.detach().requires_grad_();
    const Tensor y = line(nn::functional::softplus(conv(x)).flatten(1));
    const Tensor slope = autograd::grad({y.sum()}, {x}, {.create_graph = true})[0];
    const Tensor loss = y.mean() + (slope.flatten(1).norm(2, {1}) - 1.0).square().mean();
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  auto step = compile(function, {.whole = true});
  std::vector<Tensor> trace;
  for (int call = 0; call < 8; ++call) {
    const Tensor images = randn({4, 1, 8, 8});
    trace.push_back((compiled ? step(images) : function(images)).clone());
  }
  trace.push_back(conv.weight.detach().clone());
  *summary = step.summary();
  return trace;
}

TEST(CompileEdges, AGradientPenaltyIsRepeated) {
  CompileSummary summary;
  const std::vector<Tensor> expected = train_with_penalty(false, &summary);
  const std::vector<Tensor> got = train_with_penalty(true, &summary);
  EXPECT_GT(summary.replays, 2) << summary.str() << "; " << summary.why_not;
  expect_same_traces({expected}, {got});
}

TEST(CompileEdges, AStepThatKeepsGradientsHistoryIsNotRepeated) {
  const Tensor w = ones({3}, {.requires_grad = true});
  auto step = compile([&](const Tensor& x) {
    w.zero_grad();
    (x * w * w).sum().backward({}, {.create_graph = true});
    const Tensor result = w.grad().detach().clone();
    w.zero_grad();
    return result;
  });
  for (int call = 0; call < 4; ++call) EXPECT_EQ(step(ones({3}))[0].item<float>(), 2.0F);
  EXPECT_THAT(step.summary().why_not, HasSubstr("backward() creates a graph"));
}

TEST(CompileEdges, ParametersThatAnOptimizerGetsLaterAreCleared) {
  manual_seed(1);
  nn::Linear one(4, 1);
  nn::Linear two(4, 1);
  optim::SGD optimizer(one.parameters(), {.lr = 0.0});
  auto step = compile(
      [&](const Tensor& x) {
        optimizer.zero_grad();
        const Tensor loss = (one(x) + two(x)).sum();
        loss.backward();
        optimizer.step();
        return loss;
      },
      {.whole = true, .checks = 1});
  const Tensor x = ones({2, 4});
  for (int call = 0; call < 4; ++call) step(x);
  optimizer.add_param_group(two.parameters(), {.lr = 0.0});
  for (int call = 0; call < 6; ++call) step(x);
  EXPECT_EQ(two.weight.grad()[0][0].item<float>(), 2.0F);
  EXPECT_GT(step.summary().replays, 3);
}

TEST(CompileEdges, ADifferenceThatALateCheckFindsIsAnError) {
  double factor = 1;
  const auto function = [&](const Tensor& x) { return x * factor; };
  auto whole = compile(function, {.whole = true, .checks = 1, .check = 4});
  auto lenient = compile(function, {.checks = 1, .check = 4});
  const NoGradGuard no_grad;
  const Tensor x = ones({3});
  for (int call = 0; call < 5; ++call) {
    whole(x);
    lenient(x);
  }
  factor = 2;
  std::string why;
  try {
    for (int call = 0; call < 5; ++call) whole(x);
  } catch (const Error& error) {
    why = error.what();
  }
  EXPECT_THAT(why, HasSubstr("does not do the same in each call: step 1: a number of fill_"));
  for (int call = 0; call < 5; ++call) lenient(x);
  EXPECT_THAT(lenient.summary().why_not, HasSubstr("does not do the same in each call"));
  EXPECT_EQ(lenient(x)[0].item<float>(), 2.0F);
}

}  // namespace
}  // namespace dl
