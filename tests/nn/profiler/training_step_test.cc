// What a profile of training holds beside operations: batches, optimizers, steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/profiler/profile.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "nn/data/data_loader.h"
#include "nn/data/datasets/tensor_dataset.h"
#include "nn/functional/functional.h"
#include "nn/layers/linear.h"
#include "nn/optim/algorithms/algorithms.h"

namespace dl::profiler {
namespace {

using testing::IsSupersetOf;

TEST(TrainingStep, HasPyTorchsNamesOnItsThreads) {
  manual_seed(1);
  nn::Linear model(4, 3);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  const data::TensorDataset dataset({randn({8, 4}), zeros({8}, {.dtype = DType::kI64})});
  const data::DataLoader loader(dataset, {.batch_size = 2, .num_workers = 1});
  Profile prof({.schedule = schedule({.active = 4, .repeat = 1})});
  prof.start();
  for (const auto& [x, y] : loader) {
    optimizer.zero_grad();
    nn::functional::cross_entropy(model(x), y).backward();
    optimizer.step();
    prof.step();
  }
  prof.stop();

  const Averages averages = prof.key_averages();
  const auto count = [&](std::string_view key) {
    const auto at = std::ranges::find(averages.rows, key, &Average::key);
    return at == averages.rows.end() ? 0 : at->count;
  };
  EXPECT_EQ(count("ProfilerStep*"), 4);
  EXPECT_EQ(count("Optimizer.step#Adam.step"), 4);
  EXPECT_EQ(count("Optimizer.zero_grad#Adam.zero_grad"), 4);
  EXPECT_EQ(count("optimizer_step"), 4);
  EXPECT_EQ(count("NllLossBackward0"), 4);
  EXPECT_EQ(count("linear"), 4);
  EXPECT_GE(count("enumerate(DataLoader)#Epoch.next"), 3);  // the first was over before
  EXPECT_EQ(prof.breakdown().steps, 4);

  // The worker read while the first thread computed.
  std::set<std::string> names;
  for (const ThreadLog& log : prof.recording().threads) {
    names.insert(log.name);
    const bool is_worker = log.name == "dl-loader-0";
    for (const Event& event : log.events) {
      if (event.name == "DataLoader.read") {
        EXPECT_TRUE(is_worker) << log.name;
      } else if (event.name == "linear") {
        EXPECT_FALSE(is_worker);
      }
    }
  }
  EXPECT_THAT(names, IsSupersetOf({"dl-loader-0"}));
}

}  // namespace
}  // namespace dl::profiler
