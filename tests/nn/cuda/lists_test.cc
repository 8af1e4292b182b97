// Gradient clipping and averages of weights on a GPU: few launches, and the CPU's numbers.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/device/cuda/cuda.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/optim/swa_utils.h"
#include "nn/utils/clip_grad.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

using optim::swa_utils::AveragedModel;
using optim::swa_utils::AveragedModelOptions;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class CudaLists : public OnDevice {};

// How much work `act` gives to streams: launches, copies, calls of libraries. Only the host device
// (tests/host_device) counts it.
template <typename Act>
std::optional<long> work_of(const Act& act) {
  void* const library = dlopen("libhost_device.so", RTLD_NOW | RTLD_NOLOAD);
  act();  // what a first call makes
  if (library == nullptr) return std::nullopt;
  auto* const count = reinterpret_cast<long (*)()>(dlsym(library, "dl_host_device_work_count"));
  EXPECT_NE(count, nullptr);
  const long before = count();
  act();
  const long after = count();
  dlclose(library);
  return after - before;
}

// Sizes of which one is more than a chunk, more tensors than a launch takes, and images.
std::vector<Tensor> parameters(Device device, std::optional<DType> dtype = {}) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF64, DType::kF16};
  std::vector<Tensor> result;
  for (std::uint64_t i = 0; i < 90; ++i) {
    const std::int64_t size = i == 7 ? 200'001 : static_cast<std::int64_t>(1 + i * 13 % 70);
    Tensor gradient = i % 10 == 3 ? numbers({7, size}, i).t()
                      : i % 10 == 6
                          ? numbers({2, 3, size, 5}, i).contiguous(MemoryFormat::kChannelsLast)
                          : numbers({size}, i);
    gradient = gradient.to(dtype.value_or(kDTypes[i % 4])).to(device);
    result.push_back(empty_like(gradient).requires_grad_());
    result.back().set_grad(gradient);
  }
  return result;
}

void expect_same_gradients(const std::vector<Tensor>& there, const std::vector<Tensor>& here,
                           const std::string& what) {
  for (std::size_t i = 0; i < here.size(); ++i) {
    // Both devices compute parts of the norm in f32, in another order.
    expect_close(there[i].grad(), here[i].grad(), std::max(1e-6, tolerance(here[i].dtype())),
                 what + ", gradient " + std::to_string(i));
  }
}

TEST_F(CudaLists, ClipNormsAsOnTheCPU) {
  for (const double p : {1.0, 2.0, 2.5, kInfinity}) {
    for (const double limit : {0.5, 1e9}) {
      for (const auto& dtype : {std::optional<DType>(), std::optional(DType::kF32)}) {
        const std::vector<Tensor> here = parameters(Device{}, dtype);
        const std::vector<Tensor> there = parameters(kGPU, dtype);
        const nn::utils::ClipGradNormOptions options{.norm_type = p};
        const Tensor wanted = nn::utils::clip_grad_norm_(here, limit, options);
        const Tensor got = nn::utils::clip_grad_norm_(there, limit, options);
        EXPECT_EQ(got.dtype(), dtype.value_or(DType::kF64));
        expect_close(got, wanted, 1e-6, "the norm");
        expect_same_gradients(there, here, "order " + std::to_string(p));
      }
    }
  }
}

TEST_F(CudaLists, ClipValuesAsOnTheCPU) {
  const std::vector<Tensor> here = parameters(Device{});
  const std::vector<Tensor> there = parameters(kGPU);
  for (const auto* params : {&here, &there}) {
    (*params)[0].grad().fill_(std::nan(""));
    nn::utils::clip_grad_value_(*params, 0.7);
  }
  expect_same_gradients(there, here, "clipped to 0.7");
}

TEST_F(CudaLists, GradientsThatAreNotFiniteBecomeNaNOrAnError) {
  for (const double p : {2.0, kInfinity}) {
    const std::vector<Tensor> params = parameters(kGPU, DType::kF32);
    params[80].grad().fill_(std::nan(""));
    const Tensor norm = nn::utils::clip_grad_norm_(params, 1, {.norm_type = p});
    EXPECT_TRUE(std::isnan(norm.item<double>()));
    EXPECT_TRUE(std::isnan(values<float>(params[0].grad().cpu())[0]));
    EXPECT_ERROR(
        nn::utils::clip_grad_norm_(params, 1, {.norm_type = p, .error_if_nonfinite = true}),
        kInvalidArgument,
        "clip_grad_norm_: the norm of all gradients is nan, so that they cannot be clipped");
  }
}

std::vector<Tensor> plain_parameters(std::size_t count) {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(ones({5}, {.device = kGPU}).requires_grad_());
    result.back().set_grad(numbers({5}, i).to(kGPU));
  }
  return result;
}

nn::Sequential layers(std::size_t count) {
  nn::Sequential result;
  for (std::size_t i = 0; i < count; ++i) {
    result.add(nn::Linear(4, 4));
    result.add(nn::BatchNorm1d(4));
  }
  result.to(kGPU);
  return result;
}

TEST_F(CudaLists, ALaunchTakesManyTensors) {
  const std::vector<Tensor> params = plain_parameters(36);
  const auto norm = work_of([&] { nn::utils::clip_grad_norm_(params, 1); });
  if (!norm) GTEST_SKIP() << "only the host device counts launches";
  EXPECT_EQ(norm, 3);  // parts of the norm, the norm, the product
  EXPECT_EQ(work_of([&] { nn::utils::clip_grad_value_(params, 1); }), 1);

  // 32 parameters, 16 running means and variances, 8 counts of batches; the number of updates.
  nn::Sequential model = layers(8);
  nn::Sequential average = layers(8);
  AveragedModel mean(average, model);
  EXPECT_EQ(work_of([&] { mean.update_parameters(); }), 3);
  AveragedModel moving(average, model, {.ema_decay = 0.9});
  EXPECT_EQ(work_of([&] { moving.update_parameters(); }), 3);
}

TEST_F(CudaLists, AveragesAreThoseOfTheCPU) {
  for (const DType dtype : kFloats) {
    for (const AveragedModelOptions options : {AveragedModelOptions{},
                                               {.ema_decay = 0.7},
                                               {.use_buffers = true},
                                               {.ema_decay = 0.7, .use_buffers = true}}) {
      nn::Sequential models[] = {layers(20), layers(20)};
      nn::Sequential averages[] = {layers(20), layers(20)};
      for (auto* const all : {models, averages}) {
        all[0].to(Device{});
        for (int i : {0, 1}) all[i].to(dtype);
      }
      AveragedModel here(averages[0], models[0], options);
      AveragedModel there(averages[1], models[1], options);
      const NoGradGuard no_grad;
      for (std::uint64_t step = 0; step < 4; ++step) {
        std::uint64_t seed = 100 * step;
        const auto fill = [&](const nn::StateDict& a, const nn::StateDict& b) {
          for (std::size_t i = 0; i < a.size(); ++i) {
            const Tensor& to = a[i].tensor;
            const Tensor value = is_floating(to.dtype())
                                     ? numbers(to.sizes(), ++seed).to(dtype)
                                     : full(to.sizes(), 7.0 * static_cast<double>(++seed));
            Tensor(to).copy_(value);
            Tensor(b[i].tensor).copy_(value);
          }
        };
        fill(models[0].named_parameters(), models[1].named_parameters());
        fill(models[0].named_buffers(), models[1].named_buffers());
        here.update_parameters();
        there.update_parameters();
        const nn::StateDict wanted = averages[0].state_dict();
        const nn::StateDict got = averages[1].state_dict();
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          if (is_floating(wanted[i].tensor.dtype())) {
            expect_close(got[i].tensor, wanted[i].tensor, tolerance(dtype), wanted[i].name);
          } else {
            expect_same(got[i].tensor, wanted[i].tensor, wanted[i].name);
          }
        }
      }
    }
  }
}

// The numbers of PyTorch's AveragedModel for weights of 1, 2, 6, -3.
TEST_F(CudaLists, CapturedUpdatesCount) {
  for (const auto& [options, wanted] :
       {std::pair{AveragedModelOptions{}, std::vector<double>{1, 1.5, 3, 1.5}},
        {AveragedModelOptions{.ema_decay = 0.9}, {1, 1.1, 1.59, 1.131}}}) {
    nn::Linear model(1, 1, {.bias = false, .dtype = DType::kF64});
    nn::Linear average(1, 1, {.bias = false, .dtype = DType::kF64});
    model.to(kGPU);
    average.to(kGPU);
    AveragedModel averaged(average, model, options);
    auto step = compile(
        [&](const Tensor& weight) {
          const NoGradGuard no_grad;
          model.weight.copy_(weight);
          averaged.update_parameters();
        },
        {.whole = true});
    // The second round starts from a state that is loaded: the graph's first update copies again.
    for (int round = 0; round < 2; ++round) {
      const nn::StateDict fresh{{"n_averaged", tensor(std::int64_t{0})},
                                {"module.weight", zeros({1, 1}, {.dtype = DType::kF64})}};
      if (round > 0) averaged.load_state_dict(fresh);
      const double weights[] = {1, 2, 6, -3};
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        step(full({1, 1}, weights[i], {.dtype = DType::kF64, .device = kGPU}));
        EXPECT_NEAR(average.weight.cpu().item<double>(), wanted[i], 1e-12) << round << ": " << i;
        EXPECT_EQ(averaged.n_averaged(), i + 1);
      }
    }
    EXPECT_EQ(step.summary().graphs, 1U);
  }
}

// The mean of weights 1, 2, ..., 6, of which a graph takes some and the CPU the last ones.
TEST_F(CudaLists, AnAverageMayMoveAfterCapturedUpdates) {
  nn::Linear model(1, 1, {.bias = false, .dtype = DType::kF64});
  nn::Linear average(1, 1, {.bias = false, .dtype = DType::kF64});
  AveragedModel averaged(average, model);
  model.to(kGPU);
  average.to(kGPU);
  auto step = compile(
      [&](const Tensor& weight) {
        const NoGradGuard no_grad;
        model.weight.copy_(weight);
        averaged.update_parameters();
      },
      {.whole = true});
  const auto weight = [](double value) { return full({1, 1}, value, {.dtype = DType::kF64}); };
  for (int i = 1; i <= 4; ++i) step(weight(i).to(kGPU));
  model.to(Device{});
  average.to(Device{});
  for (int i = 5; i <= 6; ++i) {
    const NoGradGuard no_grad;
    model.weight.copy_(weight(i));
    averaged.update_parameters();
  }
  EXPECT_NEAR(average.weight.item<double>(), 3.5, 1e-12);
}

TEST_F(CudaLists, ACapturedStepClipsAndAverages) {
  std::vector<Tensor> results[2];
  for (const bool compiled : {false, true}) {
    manual_seed(3);
    nn::Sequential model = layers(3);
    nn::Sequential average = layers(3);
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    AveragedModel averaged(average, model, {.ema_decay = 0.5});
    auto step = compile(
        [&](const Tensor& x) {
          optimizer.zero_grad();
          sum(model(x) * x).backward();
          const Tensor norm = nn::utils::clip_grad_norm_(model.parameters(), 0.5);
          nn::utils::clip_grad_value_(model.parameters(), 0.1);
          optimizer.step();
          averaged.update_parameters();
          return norm;
        },
        {.enabled = compiled, .whole = true});
    for (std::uint64_t i = 0; i < 6; ++i) {
      results[compiled].push_back(step(numbers({8, 4}, i).to(kGPU)).detach().cpu());
    }
    for (const Tensor& p : average.parameters()) {
      results[compiled].push_back(p.detach().cpu().clone());
    }
    EXPECT_EQ(step.summary().graphs, compiled ? 1U : 0U);
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    expect_same(results[1][i], results[0][i], "tensor " + std::to_string(i));
  }
}

}  // namespace
}  // namespace dl::testing
