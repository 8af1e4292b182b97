// Averaged weights. The numbers are PyTorch's.
#include "nn/optim/swa_utils.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/optim/lr_scheduler/schedules.h"
#include "nn/serialize/pth/pth.h"
#include "nn/serialize/safetensors.h"
#include "nn/serialize/value.h"
#include "tests/core/support.h"

namespace dl::optim::swa_utils {
namespace {

using Numbers = std::vector<double>;

nn::Linear one_weight(double value) {
  nn::Linear layer(1, 1, {.bias = false, .dtype = DType::kF64});
  const NoGradGuard no_grad;
  layer.weight.fill_(value);
  return layer;
}

void expect_averages(AveragedModelOptions options, const Numbers& wanted) {
  nn::Linear model = one_weight(5);
  nn::Linear average = one_weight(-1);
  AveragedModel averaged(average, model, options);
  EXPECT_EQ(average.weight.item<double>(), 5);
  const Numbers steps{1, 2, 6, -3};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    {
      const NoGradGuard no_grad;
      model.weight.fill_(steps[i]);
    }
    averaged.update_parameters();
    EXPECT_NEAR(average.weight.item<double>(), wanted[i], 1e-12) << i;
  }
  EXPECT_EQ(averaged.n_averaged(), 4);
  EXPECT_EQ(&averaged.module(), &average);
}

TEST(AveragedModel, IsTheMeanOfAllUpdates) {
  expect_averages({}, {1, 1.5, 3, 1.5});
}

TEST(AveragedModel, IsAnExponentialMovingAverage) {
  expect_averages({.ema_decay = 0.9}, {1, 1.1, 1.59, 1.131});
}

TEST(AveragedModel, CopiesOrAveragesBuffers) {
  for (const bool averages : {false, true}) {
    nn::BatchNorm1d model(1);
    nn::BatchNorm1d average(1);
    AveragedModel averaged(average, model, {.use_buffers = averages});
    for (const double mean : {2.0, 4.0}) {
      model.running_mean.fill_(mean);
      model.num_batches_tracked.fill_(mean);
      averaged.update_parameters();
    }
    EXPECT_EQ(average.running_mean.item<double>(), averages ? 3 : 4);
    EXPECT_EQ(average.num_batches_tracked.item<int>(), averages ? 3 : 4);
  }
}

// PyTorch's numbers: means in float32, cut off.
TEST(AveragedModel, AveragesCountsOfBatches) {
  const auto expect = [](AveragedModelOptions options, const std::vector<std::int64_t>& wanted) {
    nn::BatchNorm1d model(2);
    nn::BatchNorm1d average(2);
    AveragedModel averaged(average, model, options);
    std::vector<std::int64_t> counts;
    for (const int count : {3, 6, 7, 20, 21}) {
      model.num_batches_tracked.fill_(count);
      averaged.update_parameters();
      counts.push_back(average.num_batches_tracked.item<std::int64_t>());
    }
    EXPECT_EQ(counts, wanted);
  };
  expect({.use_buffers = true}, {3, 4, 5, 8, 10});
  expect({.ema_decay = 0.9, .use_buffers = true}, {3, 3, 3, 4, 5});
  expect({}, {3, 6, 7, 20, 21});
}

TEST(AveragedModel, RefusesAnotherModel) {
  nn::Linear model(2, 3);
  nn::Linear other(2, 4);
  EXPECT_ERROR(
      AveragedModel(other, model), kMismatch,
      "AveragedModel: the average has weight [4, 2] of float32, the model weight [3, 2] of "
      "float32");
  nn::Linear without(2, 3, {.bias = false});
  EXPECT_ERROR(AveragedModel(without, model), kMismatch,
               "AveragedModel: the average has 1 parameters or buffers, the model 2");
  nn::Linear alike(2, 3);
  EXPECT_ERROR(AveragedModel(alike, model, {.ema_decay = 1.5}), kInvalidArgument,
               "AveragedModel: ema_decay is 1.5, wanted 0 to 1");
}

nn::Sequential small_model() {
  return nn::Sequential{nn::Linear(2, 3), nn::BatchNorm1d(3)};
}

// A state of 2 updates, with ones in all tensors.
nn::StateDict state_of_ones() {
  nn::Sequential average = small_model();
  nn::Sequential model = small_model();
  AveragedModel averaged(average, model);
  averaged.update_parameters();
  averaged.update_parameters();
  nn::StateDict state = averaged.state_dict();
  for (nn::NamedTensor& entry : state) {
    entry.tensor = entry.tensor.detach().clone();
    if (entry.name != "n_averaged") entry.tensor.fill_(1);
  }
  return state;
}

std::vector<std::string> names_of(const nn::StateDict& state) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& entry : state) names.push_back(entry.name);
  return names;
}

TEST(AveragedModel, HasPyTorchsState) {
  const nn::StateDict state = state_of_ones();
  // What PyTorch 2.15 prints for AveragedModel(Sequential(Linear(2, 3), BatchNorm1d(3))).
  EXPECT_EQ(names_of(state),
            (std::vector<std::string>{"n_averaged", "module.0.weight", "module.0.bias",
                                      "module.1.weight", "module.1.bias", "module.1.running_mean",
                                      "module.1.running_var", "module.1.num_batches_tracked"}));
  EXPECT_EQ(state[0].tensor.dtype(), DType::kI64);
  EXPECT_EQ(state[0].tensor.sizes(), Shape());
  EXPECT_EQ(state[0].tensor.item<int>(), 2);
}

TEST(AveragedModel, GoesOnFromASavedState) {
  const std::string dir = ::testing::TempDir();
  nn::save_safetensors(dir + "swa_state.safetensors", state_of_ones());
  nn::save_pth(dir + "swa_state.pth", state_of_ones());
  for (const int way : {0, 1, 2}) {
    nn::Sequential model = small_model();
    nn::Sequential average = small_model();
    AveragedModel averaged(average, model);
    if (way == 0) averaged.load_state_dict(state_of_ones());
    if (way == 1) averaged.load_state_dict(nn::load_safetensors(dir + "swa_state.safetensors"));
    if (way == 2) averaged.load_state_dict(nn::load_pth(dir + "swa_state.pth"));
    EXPECT_EQ(averaged.n_averaged(), 2);
    EXPECT_EQ(average.get_parameter("0.bias").detach().at<float>({2}), 1);
    for (Tensor& each : model.parameters()) {
      const NoGradGuard no_grad;
      each.fill_(4);
    }
    averaged.update_parameters();  // the third: (1 + 1 + 4) / 3
    EXPECT_FLOAT_EQ(average.get_parameter("0.bias").detach().at<float>({2}), 2);
    EXPECT_EQ(averaged.n_averaged(), 3);
  }
}

TEST(AveragedModel, TakesNothingOfAStateThatDoesNotFit) {
  nn::Sequential model = small_model();
  nn::Sequential average = small_model();
  AveragedModel averaged(average, model);
  const float before = average.get_parameter("0.bias").detach().at<float>({0});
  nn::StateDict state = state_of_ones();
  state[0].tensor = tensor(std::int64_t{-1});
  EXPECT_ERROR(averaged.load_state_dict(state), kMismatch,
               "AveragedModel: load_state_dict: \"n_averaged\" is tensor(-1), wanted an integer of "
               "at least 0");
  state.erase(state.begin());
  EXPECT_ERROR(averaged.load_state_dict(state), kMismatch,
               "AveragedModel: load_state_dict: \"n_averaged\" is missing, wanted an integer of at "
               "least 0");
  EXPECT_ERROR(averaged.load_state_dict(model.state_dict()), kMismatch,
               "AveragedModel: load_state_dict: got \"0.weight\", wanted \"n_averaged\" and names "
               "that begin with \"module.\"");
  state = state_of_ones();
  state.pop_back();
  EXPECT_ERROR(averaged.load_state_dict(state), kMismatch,
               "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: "
               "\"1.num_batches_tracked\".");
  EXPECT_EQ(averaged.n_averaged(), 0);
  EXPECT_EQ(average.get_parameter("0.bias").detach().at<float>({0}), before);
}

TEST(BatchNorms, AreFoundAtEveryDepth) {
  nn::Sequential model{nn::BatchNorm1d(2), nn::Linear(2, 2),
                       nn::Sequential{nn::BatchNorm2d(3), nn::ReLU()}};
  const std::vector<nn::BatchNorm*> found = nn::batch_norms(model);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(static_cast<nn::Module*>(found[0]), &model.get_submodule("0"));
  EXPECT_EQ(static_cast<nn::Module*>(found[1]), &model.get_submodule("2.0"));
  EXPECT_EQ(nn::batch_norms(*found[0]), (std::vector<nn::BatchNorm*>{found[0]}));
}

TEST(UpdateBn, TakesTheMeansOfAllInputs) {
  nn::Sequential model{nn::BatchNorm1d(2, {.dtype = DType::kF64})};
  auto& norm = dynamic_cast<nn::BatchNorm&>(model.get_submodule("0"));
  norm.running_mean.fill_(9);
  model.eval();
  const std::vector<Tensor> inputs{tensor({{1., 2.}, {3., 8.}}, {.dtype = DType::kF64}),
                                   tensor({{5., 1.}, {9., 1.}, {1., 4.}}, {.dtype = DType::kF64})};
  update_bn(inputs, model);
  EXPECT_EQ(values<double>(norm.running_mean), (Numbers{3.5, 3.5}));
  EXPECT_EQ(values<double>(norm.running_var), (Numbers{9, 10.5}));
  EXPECT_EQ(norm.options.momentum, 0.1);
  EXPECT_FALSE(norm.is_training());
  norm.train();  // inside a model that is in evaluation
  update_bn(inputs, model);
  EXPECT_FALSE(model.is_training());
  EXPECT_TRUE(norm.is_training());
  norm.eval();
  const std::vector<Tensor> bad{zeros({1, 3})};
  EXPECT_THROW(update_bn(bad, model), Error);
  EXPECT_EQ(norm.options.momentum, 0.1);
  EXPECT_FALSE(norm.is_training());
}

void expect_rates(const SWALROptions& options, const Numbers& wanted) {
  SGD opt({zeros({1}).requires_grad_()}, {.lr = 0.4});
  SWALR scheduler(opt, options);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(opt.lr(), wanted[i], 1e-15) << i;
    scheduler.step();
  }
}

// The numbers are PyTorch's, which keeps swa_lr in the parameter groups.
TEST(SWALR, GoesToTheRateOfTheOneMadeLast) {
  SGD opt({zeros({1}).requires_grad_()}, {.lr = 0.1});
  SWALR first(opt, {.swa_lr = {0.05}, .anneal_epochs = 4});
  SWALR last(opt, {.swa_lr = {0.01}, .anneal_epochs = 4});
  first.step();
  EXPECT_NEAR(opt.lr(), 0.08681980515339464, 1e-15);
  last.step();
  EXPECT_NEAR(opt.lr(), 0.07556980515339465, 1e-15);
}

TEST(SWALR, GoesToItsRate) {
  expect_rates({.swa_lr = {0.1}, .anneal_epochs = 4},
               {0.4, 0.35606601717798214, 0.25, 0.1439339828220179, 0.1, 0.1, 0.1});
  expect_rates({.swa_lr = {0.1}, .anneal_epochs = 3, .linear = true},
               {0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1});
  expect_rates({.swa_lr = {0.1}, .anneal_epochs = 0}, {0.1, 0.1, 0.1});
  SGD opt({zeros({1}).requires_grad_()}, {.lr = 0.4});
  EXPECT_ERROR(SWALR(opt, {.swa_lr = {1, 2}}), kInvalidArgument,
               "SWALR: swa_lr has 2 numbers, wanted 1 or one for each of 1 parameter groups");
  EXPECT_ERROR(SWALR(opt, {.swa_lr = {1}, .anneal_epochs = -1}), kInvalidArgument,
               "SWALR: anneal_epochs is -1, wanted at least 0");
}

}  // namespace
}  // namespace dl::optim::swa_utils
