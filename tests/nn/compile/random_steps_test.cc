// Random training steps of element-wise operations, views, reductions and normalisation: compiled
// ones give the bits of the function.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/device/parallel.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/norm/norm.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"

namespace dl {
namespace {

constexpr std::int64_t kChannels = 5;

struct Form {
  std::uint32_t seed;
  DType dtype;
  bool channels_last;
  bool backward;
};

// What a step trains and keeps.
struct State {
  explicit State(const Form& how) {
    manual_seed(how.seed);
    const TensorOptions options{.dtype = how.dtype};
    for (Tensor& each : parameters) {
      each = (rand({kChannels}) + 0.5).to(how.dtype);
      if (how.backward) each.requires_grad_();
    }
    mean = zeros({kChannels}, options);
    variance = ones({kChannels}, options);
  }
  std::array<Tensor, 4> parameters;
  Tensor mean;
  Tensor variance;
};

// One operation on `a` and `b`, which have one shape, [n, channels, h, w].
Tensor operation(unsigned choice, const Tensor& a, const Tensor& b, State& state) {
  const Tensor& weight = state.parameters[0];
  const Tensor& bias = state.parameters[1];
  switch (choice) {
    case 0:
      return a.relu();
    case 1:
      return a.silu();
    case 2:
      return a.tanh() + b;
    case 3:
      return a + b;
    case 4:
      return a * b.sigmoid();
    case 5:
      return (a - 0.25) * 0.5;
    case 6:
      return batch_norm(a, state.mean, state.variance, weight, bias, {.training = true}).relu();
    case 7:
      return (batch_norm(a, {}, {}, weight, bias, {.training = true}) + b).silu();
    case 8:
      return layer_norm(a + b, {a.size(2), a.size(3)});
    case 9:
      return group_norm(a, kChannels, state.parameters[2], state.parameters[3]) * 0.5 + a;
    case 10:
      return softmax(a, 1) * b;
    case 11:
      return a * b.mean();
    case 12:
      return (a * bias.view({1, kChannels, 1, 1})).relu();
    case 13: {  // parts that overlap in one block
      const Tensor all = cat({a.relu(), b}, 0);
      const Tensor early = all.narrow(0, 0, a.size(0));
      const Tensor late = all.narrow(0, 1, a.size(0));
      return (early + late).tanh();
    }
    case 14: {  // in place, on a result of its own
      Tensor own = a * 0.5;
      own.add_(b);
      own.mul_(0.75);
      return own;
    }
    default:
      return a.permute({0, 1, 3, 2}).contiguous().permute({0, 1, 3, 2}) - b;
  }
}

Tensor step(const Form& how, State& state, const Tensor& x) {
  std::mt19937 random(how.seed);
  std::vector<Tensor> pool{x, x * state.parameters[2].view({1, kChannels, 1, 1})};
  for (int i = 0; i < 12; ++i) {
    // Mostly the last results, so that chains come about.
    const auto any = [&] {
      const std::size_t back = random() % 3 == 0 ? random() % pool.size() : 0;
      return pool[pool.size() - 1 - back];
    };
    const Tensor a = any();
    const Tensor b = any();
    pool.push_back(operation(random() % 16, a, b, state));
  }
  const Tensor result =
      (pool.back() + pool[pool.size() - 3] + pool[1]).tanh().to(DType::kF32).mean();
  if (!how.backward) return result;
  result.backward();
  const NoGradGuard no_grad;
  for (Tensor& each : state.parameters) {
    if (!each.grad().defined()) continue;
    each.add_(each.grad(), -0.5);
    each.zero_grad();
  }
  return result;
}

struct Outcome {
  std::vector<Tensor> tensors;
  CompileSummary summary;
};

Outcome run(const Form& how, const Shape& shape, bool compiled) {
  State state(how);
  auto steps = compile([&](const Tensor& x) { return step(how, state, x); },
                       {.enabled = compiled, .whole = true, .checks = 1});
  Outcome outcome;
  for (int i = 0; i < 5; ++i) {
    Tensor x = randn(shape).to(how.dtype);
    if (how.channels_last) x = x.contiguous(MemoryFormat::kChannelsLast);
    if (how.backward) {
      outcome.tensors.push_back(steps(x).detach());
    } else {
      const NoGradGuard no_grad;
      outcome.tensors.push_back(steps(x));
    }
  }
  for (const Tensor& each : state.parameters) outcome.tensors.push_back(each.detach());
  outcome.tensors.push_back(state.mean);
  outcome.tensors.push_back(state.variance);
  outcome.summary = steps.summary();
  return outcome;
}

TEST(CompileRandomSteps, HaveTheFunctionsBits) {
  const int threads = num_threads();
  std::size_t chains = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    const Form how{.seed = seed,
                   .dtype = std::array{DType::kF32, DType::kBF16, DType::kF64}[seed % 3],
                   .channels_last = seed % 2 == 1,
                   .backward = seed % 4 < 3};
    // Most are smaller than a part, some are divided among threads.
    const Shape shape = seed % 10 == 9 ? Shape{9, kChannels, 33, 31} : Shape{3, kChannels, 7, 3};
    set_num_threads(1 + static_cast<int>(seed % 2));
    const Outcome eager = run(how, shape, false);
    const Outcome compiled = run(how, shape, true);
    EXPECT_EQ(compiled.summary.replays, 3) << "seed " << seed << ": " << compiled.summary.str();
    chains += compiled.summary.chains;
    for (std::size_t i = 0; i < eager.tensors.size(); ++i) {
      const Tensor a = eager.tensors[i].contiguous();
      const Tensor b = compiled.tensors[i].contiguous();
      ASSERT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()), 0)
          << "seed " << seed << ", tensor " << i;
    }
  }
  EXPECT_GT(chains, 240u) << "hardly any steps ran together";
  set_num_threads(threads);
}

}  // namespace
}  // namespace dl
