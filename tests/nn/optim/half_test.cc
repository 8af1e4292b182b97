// Optimizers of float16 and bfloat16 parameters: state and arithmetic are float32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/tensor/factories.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/serialize/value.h"
#include "nn/utils/clip_grad.h"
#include "tests/nn/support.h"

namespace dl::optim {
namespace {

using Make = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

template <typename Opt, typename Options>
Make made_by(Options options) {
  return [options](const std::vector<Tensor>& p) { return std::make_unique<Opt>(p, options); };
}

std::vector<std::pair<std::string, Make>> all_optimizers() {
  return {
      {"SGD", made_by<SGD>(SGDOptions{.lr = 0.1})},
      {"SGD with momentum",
       made_by<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.1})},
      {"Adam", made_by<Adam>(AdamOptions{.lr = 0.02, .weight_decay = 0.1, .amsgrad = true})},
      {"AdamW", made_by<AdamW>(AdamWOptions{.lr = 0.02})},
      {"NAdam", made_by<NAdam>(NAdamOptions{.lr = 0.02})},
      {"RAdam", made_by<RAdam>(RAdamOptions{.lr = 0.02, .betas = {0.8, 0.9}})},
      {"RMSprop", made_by<RMSprop>(RMSpropOptions{.lr = 0.02, .momentum = 0.5, .centered = true})},
      {"Adagrad", made_by<Adagrad>(AdagradOptions{.lr = 0.1})}};
}

// Numbers around 1 that differ, of two shapes: one of less and one of more than a block.
std::vector<Tensor> numbers(DType dtype, double phase) {
  const auto wave = [&](const Shape& shape) {
    const Tensor at = arange(element_count(shape, "wave")).to(DType::kF32).view(shape);
    return sin(at * 0.7 + phase).to(dtype);
  };
  return {wave({3, 5}), wave({7, 101})};
}

std::vector<Tensor> leaves(const std::vector<Tensor>& tensors, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& each : tensors) {
    result.push_back(each.detach().to(dtype).clone(MemoryFormat::kContiguous).requires_grad_());
  }
  return result;
}

TEST(HalfParameters, StepInFloat32AndRoundOnce) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const auto& [name, make_one] : all_optimizers()) {
      const std::vector<Tensor> half = leaves(numbers(dtype, 0), dtype);
      const std::vector<Tensor> full = leaves(half, DType::kF32);
      const auto half_opt = make_one(half);
      const auto full_opt = make_one(full);
      for (int step = 0; step < 4; ++step) {
        const std::vector<Tensor> gradients = numbers(dtype, step);
        for (std::size_t i = 0; i < half.size(); ++i) {
          half[i].set_grad(gradients[i]);
          full[i].set_grad(gradients[i].to(DType::kF32));
        }
        half_opt->step();
        full_opt->step();
        for (std::size_t i = 0; i < half.size(); ++i) {
          const Tensor rounded = full[i].detach().to(dtype);
          ASSERT_EQ(values<float>(half[i]), values<float>(rounded))
              << name << " " << name_of(dtype) << " step " << step;
          Tensor(full[i].detach()).copy_(rounded);
        }
      }
      const nn::StateDict state = half_opt->state_dict();
      for (const nn::NamedTensor& entry : full_opt->state_dict()) {
        const Tensor* const found = nn::find(state, entry.name);
        ASSERT_NE(found, nullptr) << entry.name;
        EXPECT_EQ(found->dtype(), entry.tensor.dtype()) << entry.name;
        EXPECT_EQ(values<float>(*found), values<float>(entry.tensor)) << name << entry.name;
      }
    }
  }
}

TEST(HalfParameters, StandBesideWiderOnesInAGroup) {
  const Tensor a = ones({3}, {.dtype = DType::kBF16, .requires_grad = true});
  const Tensor b = ones({3}, {.requires_grad = true});
  SGD sgd({a, b}, {.lr = 0.5});
  a.set_grad(ones({3}, {.dtype = DType::kBF16}));
  b.set_grad(ones({3}));
  sgd.step();
  EXPECT_EQ(values<float>(a), (std::vector<float>{0.5, 0.5, 0.5}));
  EXPECT_EQ(values<float>(b), (std::vector<float>{0.5, 0.5, 0.5}));
}

// torch.optim keeps the state in bfloat16, in which this sum of gradients would stay at 256.
TEST(HalfParameters, StateCountsOnBeyondTheirPrecision) {
  const Tensor p = zeros({1}, {.dtype = DType::kBF16, .requires_grad = true});
  SGD sgd({p}, {.lr = 0, .momentum = 1});
  p.set_grad(ones({1}, {.dtype = DType::kBF16}));
  for (int step = 0; step < 300; ++step) sgd.step();
  const nn::StateDict state = sgd.state_dict();
  EXPECT_EQ(nn::find(state, "state.0.momentum_buffer")->item<float>(), 300);
}

TEST(HalfParameters, TakeAStateOfPyTorchs) {
  const Tensor p = zeros({2}, {.dtype = DType::kBF16, .requires_grad = true});
  p.set_grad(ones({2}, {.dtype = DType::kBF16}));
  Adam adam({p}, {.lr = 0.5});
  adam.step();
  nn::StateDict state = adam.state_dict();
  for (nn::NamedTensor& entry : state) {
    if (entry.name == "state.0.exp_avg") entry.tensor = entry.tensor.to(DType::kBF16);
  }
  adam.load_state_dict(state);
  const nn::StateDict after = adam.state_dict();
  EXPECT_EQ(nn::find(after, "state.0.exp_avg")->dtype(), DType::kF32);
  EXPECT_EQ(values<float>(*nn::find(after, "state.0.exp_avg")),
            values<float>(tensor({0.1f, 0.1f}, {.dtype = DType::kBF16})));
  Adam resumed({p}, {.lr = 0.5});
  resumed.load_state_dict(adam.torch_state_dict());
  const nn::StateDict again = resumed.state_dict();
  EXPECT_EQ(nn::find(again, "state.0.exp_avg_sq")->dtype(), DType::kF32);
}

// The square of 1e-4 is 0 in float16.
TEST(HalfParameters, GradientsAreClippedByTheirNormInFloat32) {
  const Tensor p = zeros({10000}, {.dtype = DType::kF16, .requires_grad = true});
  p.set_grad(full({10000}, 1e-4, {.dtype = DType::kF16}));
  const Tensor norm = nn::utils::clip_grad_norm_({p}, 0.005);
  EXPECT_NEAR(norm.item<double>(), 0.01, 1e-5);
  EXPECT_EQ(p.grad().dtype(), DType::kF16);
  EXPECT_NEAR(p.grad()[0].item<double>(), 5e-5, 1e-6);
}

}  // namespace
}  // namespace dl::optim
