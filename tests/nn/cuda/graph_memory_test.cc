// Captured graphs share memory, and none writes over what another one has given.
#include <memory>
#include <optional>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class CudaGraphMemory : public OnDevice {
 protected:
  void TearDown() override {
    if (cuda::is_available()) cuda::set_stream(cuda::default_stream(0));
  }
};

// Eight tensors of 4 KiB a row that are needed at once. Only their first columns are computed.
Tensor wide_sum(const Tensor& rows) {
  const NoGradGuard no_grad;
  std::vector<Tensor> columns;
  for (int i = 0; i < 8; ++i) {
    const Tensor wide = empty({rows.size(0), 1024}, {.device = kGPU});
    Tensor column = wide.narrow(1, 0, 1);
    column.copy_(i == 0 ? rows.view({-1, 1}) : columns.back() * 0.5 + 1.0);
    columns.push_back(column);
  }
  Tensor total = sum(columns[0]);
  for (std::size_t i = 1; i < columns.size(); ++i) total = total + sum(columns[i]);
  return total;
}

template <typename Step>
void step_is(Step& step, const Tensor& x, const Tensor& wanted) {
  expect_same(step(x), wanted, "the result");
}

TEST_F(CudaGraphMemory, ManyFormsNeedTheMemoryOfTheLargest) {
  cuda::empty_cache();
  auto step = compile(wide_sum, {.whole = true, .most_tapes = 16});
  const auto call = [&](std::int64_t rows) {
    const Tensor x = numbers({rows});
    const Tensor wanted = wide_sum(x.to(kGPU)).cpu();
    for (int i = 0; i < 3; ++i) expect_same(step(x.to(kGPU)), wanted, std::to_string(rows));
  };
  call(512);
  cuda::empty_cache();
  const std::int64_t of_one = cuda::memory_reserved();
  EXPECT_GE(of_one, 16 * kMiB);
  for (std::int64_t rows = 508; rows > 488; rows -= 4) call(rows);
  cuda::empty_cache();
  EXPECT_LT(cuda::memory_reserved(), of_one + 12 * kMiB);
  EXPECT_EQ(step.summary().graphs, 6U);
}

// A graph's seed lies in memory that other graphs leave alone, and the rest is shared.
TEST_F(CudaGraphMemory, FormsThatDrawShareIt) {
  int runs = 0;
  auto step = compile(
      [&](const Tensor& x) {
        ++runs;
        return wide_sum(nn::functional::dropout(x, 0.5));
      },
      {.whole = true, .most_tapes = 8});
  const auto call = [&](std::int64_t rows) {
    for (int i = 0; i < 3; ++i) step(zeros({rows}, {.device = kGPU}));
  };
  cuda::empty_cache();
  call(512);
  cuda::empty_cache();
  const std::int64_t of_one = cuda::memory_reserved();
  EXPECT_GE(of_one, 16 * kMiB);
  for (std::int64_t rows = 508; rows > 488; rows -= 4) call(rows);
  cuda::empty_cache();
  EXPECT_LT(cuda::memory_reserved(), of_one + 12 * kMiB);
  EXPECT_EQ(step.summary().graphs, 6U);
  EXPECT_EQ(runs, 12) << "each form is called and captured once";
}

// A cast of a weight ends with the guard in which it was made.
TEST_F(CudaGraphMemory, HoldsNoCastOfAnOuterAutocast) {
  manual_seed(3);
  nn::Linear layer(64, 64);
  layer.to(kGPU);
  auto predict = compile([&](const Tensor& x) { return layer(x); }, {.whole = true});
  const Tensor x = numbers({4, 64}).to(kGPU);
  for (int epoch = 0; epoch < 2; ++epoch) {
    {
      const autocast mixed(DeviceType::kCUDA, {.dtype = DType::kBF16});
      const NoGradGuard no_grad;
      for (int i = 0; i < 3; ++i) expect_same(predict(x).cpu(), layer(x).cpu(), "output");
    }
    const Tensor in_freed_memory = full({64, 64}, 7.0, {.dtype = DType::kBF16, .device = kGPU});
  }
}

// Trains with batches of three sizes in turn.
class Trained {
 public:
  explicit Trained(CompileOptions options) : step_(compile(body(), options)) {}

  Tensor call(std::uint64_t i) {
    const std::int64_t rows[] = {64, 48, 16};
    return step_(numbers({rows[i % 3], 32}, i).to(kGPU));
  }
  Tensor weight() const { return model_.parameters().front(); }
  std::size_t graphs() const { return step_.summary().graphs; }

 private:
  std::function<Tensor(const Tensor&)> body() {
    return [this](const Tensor& x) {
      optimizer_.zero_grad();
      const Tensor y = model_(x);
      mean(y * y).backward();
      optimizer_.step();
      return y.detach() * 1.0;
    };
  }

  nn::Sequential model_ = make();
  optim::SGD optimizer_{model_.parameters(), {.lr = 0.1, .momentum = 0.9}};
  Compiled<std::function<Tensor(const Tensor&)>> step_;

  static nn::Sequential make() {
    manual_seed(7);
    nn::Sequential model{nn::Linear(32, 96), nn::ReLU(), nn::Linear(96, 32)};
    model.to(kGPU);
    return model;
  }
};

TEST_F(CudaGraphMemory, HeldResultsAndGradientsKeepTheirValues) {
  Trained eager({.enabled = false});
  Trained compiled({.whole = true});
  struct Held {
    Tensor result{}, gradient{};
    Tensor wanted_result{}, wanted_gradient{};
  };
  std::vector<Held> held;
  for (std::uint64_t i = 0; i < 15; ++i) {
    const Tensor wanted = eager.call(i).cpu();
    Held now{.result = compiled.call(i), .wanted_result = wanted};
    expect_same(compiled.weight().grad(), eager.weight().grad().cpu(), "the gradient now");
    // The next call of the same form writes the gradient again; those between do not.
    now.gradient = compiled.weight().grad();
    now.wanted_gradient = eager.weight().grad().cpu().clone();
    held.push_back(now);
    if (i >= 2) {
      for (std::size_t k = held.size() - 3; k < held.size(); ++k) {
        expect_same(held[k].gradient, held[k].wanted_gradient, "gradient " + std::to_string(k));
      }
    }
  }
  for (const Held& each : held) expect_same(each.result, each.wanted_result, "a result");
  EXPECT_EQ(compiled.graphs(), 3U);
}

// Gradients that are added up over calls of several forms, and an optimizer outside of the graphs.
TEST_F(CudaGraphMemory, GradientsAddUpOverGraphs) {
  std::vector<Tensor> results[2];
  for (const bool compiled : {false, true}) {
    manual_seed(4);
    nn::Linear model(8, 8);
    model.to(kGPU);
    auto step = compile([&](const Tensor& x) { mean(model(x) * x).backward(); },
                        {.enabled = compiled, .whole = true, .most_tapes = 16});
    for (std::uint64_t round = 0; round < 5; ++round) {
      model.zero_grad();
      for (const std::int64_t rows : {16, 8, 4}) step(numbers({rows, 8}, round).to(kGPU));
      results[compiled].push_back(model.weight.grad().cpu().clone());
    }
    EXPECT_EQ(step.summary().graphs > 0, compiled);
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    expect_same(results[1][i], results[0][i], "round " + std::to_string(i));
  }
}

TEST_F(CudaGraphMemory, TensorsThatTheFunctionKeepsKeepTheirValues) {
  for (const bool returns_it : {false, true}) {
    Tensor kept;
    auto step = compile(
        [&](const Tensor& x) {
          const NoGradGuard no_grad;
          const Tensor a = x * 2.0;
          const Tensor b = a + 1.0;
          const Tensor c = b * b;
          kept = c - a;
          return returns_it ? kept : sum(c);
        },
        {.whole = true});
    const auto wanted = [](const Tensor& x) {
      const Tensor b = x * 2.0 + 1.0;
      return b * b - x * 2.0;
    };
    const auto call = [&](std::int64_t size, std::uint64_t seed) {
      const Tensor x = numbers({size}, seed);
      step(x.to(kGPU));
      return wanted(x);
    };
    std::uint64_t seed = 0;
    for (int i = 0; i < 2; ++i) call(4000, ++seed);
    for (int i = 0; i < 2; ++i) call(3000, ++seed);
    const Tensor of_second = kept;
    const Tensor wanted_of_second = call(3000, ++seed);
    for (int i = 0; i < 3; ++i) {
      call(4000, ++seed);
      expect_same(of_second, wanted_of_second, "what the second form has kept");
    }
    const Tensor of_first = kept;
    const Tensor wanted_of_first = call(4000, ++seed);
    for (int i = 0; i < 3; ++i) {
      call(3000, ++seed);
      call(2000, ++seed);
      expect_same(of_first, wanted_of_first, "what the first form has kept");
    }
    EXPECT_EQ(step.summary().graphs, 3U);
  }
}

TEST_F(CudaGraphMemory, CallsOnSeveralStreamsTakeTurns) {
  auto step = compile(wide_sum, {.whole = true});
  const Tensor inputs[] = {numbers({64}, 1).to(kGPU), numbers({60}, 2).to(kGPU)};
  const Tensor wanted[] = {wide_sum(inputs[0]).cpu(), wide_sum(inputs[1]).cpu()};
  for (int i = 0; i < 2; ++i) {
    for (const Tensor& x : inputs) step(x);
  }
  const cuda::OwnedStream streams[] = {cuda::OwnedStream(0), cuda::OwnedStream(0)};
  cuda::synchronize(0);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < 40; ++i) {
    const cuda::StreamGuard on(streams[i % 2].get());
    results.push_back(step(inputs[i % 2]));
  }
  cuda::synchronize(0);
  for (std::size_t i = 0; i < results.size(); ++i) {
    expect_same(results[i], wanted[i % 2], "call " + std::to_string(i));
  }
}

TEST_F(CudaGraphMemory, FunctionsShareItAndEndInAnyOrder) {
  using Step = Compiled<Tensor (*)(const Tensor&)>;
  cuda::synchronize(0);
  cuda::empty_cache();
  const std::int64_t before = cuda::memory_reserved();
  const Tensor x = numbers({512}).to(kGPU);
  const Tensor wanted = wide_sum(x).cpu();
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2}, {2, 1, 0}, {1, 0, 2}}) {
    std::optional<compiler::GraphMemory> memory;
    memory.emplace();
    std::vector<std::unique_ptr<Step>> steps;
    for (int i = 0; i < 3; ++i) {
      steps.push_back(
          std::make_unique<Step>(compile(&wide_sum, {.whole = true, .memory = memory})));
      for (int call = 0; call < 2; ++call) step_is(*steps.back(), x, wanted);
    }
    memory.reset();
    cuda::empty_cache();
    EXPECT_LT(cuda::memory_reserved(), before + 2 * 16 * kMiB) << "one graph has 16 MiB";
    for (const std::size_t gone : order) {
      steps[gone].reset();
      cuda::empty_cache();
      for (const auto& step : steps) {
        if (step) step_is(*step, x, wanted);
      }
    }
    cuda::synchronize(0);
    cuda::empty_cache();
    EXPECT_LT(cuda::memory_reserved(), before + 8 * kMiB);
  }
}

TEST_F(CudaGraphMemory, AFailedCaptureLeavesOtherGraphsAlone) {
  const compiler::GraphMemory memory;
  auto good = compile(wide_sum, {.whole = true, .memory = memory});
  const Tensor x = numbers({64}).to(kGPU);
  const Tensor wanted = wide_sum(x).cpu();
  for (int i = 0; i < 3; ++i) step_is(good, x, wanted);
  Tensor kept;
  auto bad = compile(
      [&](const Tensor& in) {
        kept = in * 3.0;
        const Tensor total = wide_sum(in);
        return total * total.item<double>();
      },
      {.memory = memory});
  for (int i = 0; i < 3; ++i) {
    expect_close(bad(x), wanted * wanted, 1e-5, "the function itself");
    step_is(good, x, wanted);
    expect_same(kept, x.cpu() * 3.0, "kept");
  }
  EXPECT_EQ(bad.summary().graphs, 0U);
  auto late = compile(wide_sum, {.whole = true, .memory = memory});
  for (int i = 0; i < 3; ++i) {
    step_is(late, x, wanted);
    step_is(good, x, wanted);
  }
}

}  // namespace
}  // namespace dl::testing
