// A compiled step with DistributedDataParallel has the bits of the step itself. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/ops/elementwise/arithmetic.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"
#include "tests/collectives/ranks.h"

namespace dl::nn::parallel {
namespace {

using collectives::ProcessGroup;
using collectives::testing::run_ranks;

constexpr int kRounds = 10;

// Initial weights come from the process's one generator.
Sequential model_of(int rank) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  manual_seed(static_cast<std::uint64_t>(rank));
  Sequential model;
  model.add(Linear(8, 20));
  model.add(BatchNorm1d(20));
  model.add(Linear(20, 3));
  return model;
}

struct How {
  int micro_batches = 1;  // of a step; only the last one synchronises
  bool scaled = false;    // the function takes the whole step, with a GradScaler
  DistributedDataParallelOptions ddp{};
};

// What a rank has in the end: losses, then parameters and buffers.
struct Trained {
  std::vector<double> losses;
  std::vector<double> scales;
  std::vector<Tensor> state;
  CompileSummary summary;
};

Trained train(ProcessGroup& group, const How& how, bool compiled) {
  Generator draws(5 + static_cast<std::uint64_t>(group.rank()));
  Sequential model = model_of(group.rank());
  DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group), how.ddp);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  // It grows until the scaled loss overflows.
  amp::GradScaler scaler({.init_scale = 0x1p122, .growth_interval = 1});
  auto pass = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = functional::cross_entropy(ddp(x), y);
        if (how.scaled) {
          scaler.scale(loss * 8.0).backward();
          scaler.step(optimizer);
          scaler.update();
        } else {
          loss.backward();
        }
        return loss;
      },
      {.enabled = compiled, .checks = 1});
  Trained trained;
  const auto take = [&] {
    const Tensor x = randn({4, 8}, {}, draws);
    const Tensor y = randint(0, 3, {4}, {}, draws);
    trained.losses.push_back(pass(x, y).item<double>());
  };
  for (int step = 0; step < kRounds; ++step) {
    optimizer.zero_grad();
    {
      const NoSync guard = ddp.no_sync();
      for (int m = 0; m + 1 < how.micro_batches; ++m) take();
    }
    take();
    if (!how.scaled) optimizer.step();
    trained.scales.push_back(scaler.get_scale());
  }
  for (const auto& [name, tensor] : model.state_dict()) trained.state.push_back(tensor);
  trained.summary = pass.summary();
  return trained;
}

class CompiledDdp : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, CompiledDdp, ::testing::Values(1, 2, 3));

TEST_P(CompiledDdp, HasTheStepsBits) {
  for (const How& how : {How{}, How{.micro_batches = 2}, How{.scaled = true},
                         How{.ddp = {.first_bucket_mb = 1e-4, .bucket_cap_mb = 1e-4}},
                         How{.ddp = {.find_unused_parameters = true}}}) {
    run_ranks(GetParam(), [&](ProcessGroup& group) {
      const Trained eager = train(group, how, false);
      const Trained compiled = train(group, how, true);
      EXPECT_EQ(eager.losses, compiled.losses);
      EXPECT_EQ(eager.scales, compiled.scales);
      EXPECT_NE(std::ranges::is_sorted(compiled.scales), how.scaled);  // it has backed off
      ASSERT_EQ(eager.state.size(), compiled.state.size());
      for (std::size_t i = 0; i < eager.state.size(); ++i) {
        const Tensor& theirs = eager.state[i];
        EXPECT_EQ(std::memcmp(theirs.data_ptr(), compiled.state[i].data_ptr(), theirs.nbytes()), 0)
            << "tensor " << i;
      }
      EXPECT_GE(compiled.summary.replays, 5) << compiled.summary.str();
    });
  }
}

// A rank whose target is no class throws, and the others hear of it as without a tape.
TEST(CompiledDdp, EndsOnAllRanksAfterAnErrorInAReplay) {
  run_ranks(2, [](ProcessGroup& group) {
    Sequential model = model_of(group.rank());
    DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group));
    auto pass = compile([&](const Tensor& x, const Tensor& y) {
      model.zero_grad();
      const Tensor loss = functional::cross_entropy(ddp(x), y);
      loss.backward();
      return loss;
    });
    const Tensor x = ones({2, 8});
    for (int i = 0; i < 8; ++i) pass(x, zeros({2}, {.dtype = DType::kI64}));
    EXPECT_GT(pass.summary().replays, 0);
    const std::int64_t target = group.rank() == 0 ? 7 : 0;
    try {
      pass(x, full({2}, target, {.dtype = DType::kI64}));
      ADD_FAILURE() << "rank " << group.rank() << " has trained";
    } catch (const Error& error) {
      if (group.rank() == 0) {
        EXPECT_EQ(error.kind(), ErrorKind::kIndex);
        group.abort("a bad target");
      } else {
        EXPECT_EQ(error.kind(), ErrorKind::kAborted) << error.what();
      }
    }
  });
}

}  // namespace
}  // namespace dl::nn::parallel
