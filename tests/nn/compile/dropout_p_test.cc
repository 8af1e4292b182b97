// A change of a dropout's p counts in the next call of a compiled function.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/attention.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/compile/same_bits.h"

namespace dl {
namespace {

struct Noisy {
  std::function<Tensor(const Tensor&)> forward;
  std::function<double&()> p;
  std::vector<Tensor> parameters;
};
using MakeNoisy = std::function<Noisy()>;

template <typename Layer>
Noisy layer() {
  const auto linear = std::make_shared<nn::Linear>(6, 6);
  const auto noise = std::make_shared<Layer>(0.5);
  return {.forward = [=](const Tensor& x) { return (*noise)((*linear)(x)); },
          .p = [=]() -> double& { return noise->p; },
          .parameters = linear->parameters()};
}

Noisy attention() {
  const auto layer = std::make_shared<nn::MultiheadAttention>(
      6, 2, nn::MultiheadAttentionOptions{.dropout = 0.5, .batch_first = true});
  return {.forward = [=](const Tensor& x) { return (*layer)(x, x, x).first; },
          .p = [=]() -> double& { return layer->options.dropout; },
          .parameters = layer->parameters()};
}

CompileSummary train_noisy(const MakeNoisy& make, const Shape& shape, bool compiled,
                           Traces& traces) {
  manual_seed(7);
  const Noisy model = make();
  optim::SGD optimizer(model.parameters, {.lr = 0.1});
  auto step = compile(
      [&](const Tensor& x) {
        optimizer.zero_grad();
        const Tensor y = model.forward(x);
        mean(y * y).backward();
        optimizer.step();
        return y.detach();
      },
      {.enabled = compiled, .whole = true, .checks = 1});
  for (int i = 0; i < 40; ++i) {
    if (i == 6) model.p() = 0.2;
    if (i == 12) model.p() = 0;
    if (i == 16) model.p() = 1;
    if (i == 20) model.p() = 0.9;
    if (i == 26) model.p() = 0.2;
    if (i > 30) model.p() *= 0.9;
    traces.emplace_back();
    traces.back().push_back(step(randn(shape)));
    for (const Tensor& p : model.parameters) traces.back().push_back(p.detach().clone());
  }
  return step.summary();
}

TEST(CompiledDropout, ReadsPAnew) {
  const std::vector<std::pair<MakeNoisy, Shape>> models = {
      {layer<nn::Dropout>, {4, 6}},         {layer<nn::Dropout1d>, {4, 3, 6}},
      {layer<nn::Dropout2d>, {4, 3, 2, 6}}, {layer<nn::Dropout3d>, {4, 3, 2, 2, 6}},
      {layer<nn::AlphaDropout>, {4, 6}},    {attention, {4, 3, 6}}};
  for (const auto& [make, shape] : models) {
    SCOPED_TRACE(shape.str());
    Traces eager;
    Traces compiled;
    train_noisy(make, shape, false, eager);
    const CompileSummary summary = train_noisy(make, shape, true, compiled);
    expect_same_traces(eager, compiled);
    EXPECT_GE(summary.replays, 4 + 4 + 2 + 2 + 4 + 3) << summary.str();
  }
}

TEST(CompiledDropout, ABadPIsAnErrorInTheNextCall) {
  nn::Dropout noise(0.5);
  auto step = compile([&](const Tensor& x) { return noise(x); }, {.whole = true});
  const NoGradGuard no_grad;
  for (int i = 0; i < 6; ++i) step(ones({4}));
  noise.p = 1.5;
  EXPECT_THROW(step(ones({4})), Error);
  noise.p = 0;
  EXPECT_TRUE(same_bits(step(ones({4})), ones({4})));
  noise.p = 0.5;
  step(ones({4}));
}

// The tape must not ask a module that is gone.
TEST(CompiledDropout, OfAModuleThatTheFunctionMakesKeepsItsP) {
  auto half = compile([](const Tensor& x) { return nn::Dropout(0.5)(x); }, {.whole = true});
  const NoGradGuard no_grad;
  for (int i = 0; i < 8; ++i) {
    const Tensor y = half(ones({1000}));
    EXPECT_NEAR(sum(y).item<float>(), 1000, 150);
  }
  EXPECT_EQ(half.summary().replays, 4);
}

TEST(CompiledDropout, ReplacedOrMovedModulesAreRecordedAnew) {
  nn::Sequential model;
  model.add("noise", nn::Dropout(1.0));
  auto step = compile([&](const Tensor& x) { return model(x); }, {.whole = true});
  const NoGradGuard no_grad;
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same_bits(step(ones({4})), zeros({4})));
  nn::Dropout& noise = model.replace_module("noise", nn::Dropout(0.0));
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same_bits(step(ones({4})), ones({4})));
  noise.p = 1;
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same_bits(step(ones({4})), zeros({4})));
  EXPECT_EQ(step.summary().replays, 3 * 2);

  nn::Dropout* here = &noise;
  auto moved = compile([&](const Tensor& x) { return (*here)(x); }, {.whole = true});
  for (int i = 0; i < 6; ++i) moved(ones({4}));
  nn::Dropout there = std::move(noise);
  here = &there;
  there.p = 0;
  EXPECT_TRUE(same_bits(moved(ones({4})), ones({4})));
}

// A number of the function itself is as in the first call.
TEST(CompiledDropout, ANumberOfTheFunctionIsNoModules) {
  double p = 0;
  auto step = compile([&](const Tensor& x) { return nn::functional::dropout(x, p); });
  const NoGradGuard no_grad;
  for (int i = 0; i < 6; ++i) step(ones({4}));
  p = 1;
  EXPECT_TRUE(same_bits(step(ones({4})), ones({4})));
}

}  // namespace
}  // namespace dl
