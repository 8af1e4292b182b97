// The states of PyTorch's schedulers and of its GradScaler: schedulers() in make_files.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/amp/grad_scaler.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/optim/lr_scheduler/compose/chained.h"
#include "nn/optim/lr_scheduler/compose/sequential.h"
#include "nn/optim/lr_scheduler/cycle/cycle.h"
#include "nn/optim/lr_scheduler/reduce_on_plateau.h"
#include "nn/optim/lr_scheduler/schedules.h"
#include "nn/serialize/pth/pth.h"
#include "tests/nn/data/bytes.h"
#include "tests/nn/serialize/pth_files.h"

namespace dl::nn {
namespace {

using data::TemporaryDirectory;
using optim::Optimizer;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A scheduler under test, whatever its class.
struct Stepper {
  std::function<void()> step;
  std::function<void(const Value&)> load;
  std::function<StateDict()> state;
  std::shared_ptr<void> owner;
};

template <typename S, typename... Args>
Stepper stepper(Optimizer& optimizer, Args&&... args) {
  auto made = std::make_shared<S>(optimizer, std::forward<Args>(args)...);
  return {[made] {
            if constexpr (requires { made->step(1.0); }) {
              made->step(1.0);
            } else {
              made->step();
            }
          },
          [made](const Value& state) { made->load_state_dict(state); },
          [made] { return made->state_dict(); }, made};
}

// Constant, then exponential rates: what SequentialLR and ChainedScheduler hold in the file.
struct Two {
  explicit Two(Optimizer& o) : constant(o, {.factor = 0.5, .total_iters = 3}), other(o, {0.9}) {}
  optim::ConstantLR constant;
  optim::ExponentialLR other;
};
struct Sequence : Two {
  explicit Sequence(Optimizer& o) : Two(o), sequence(o, {&constant, &other}, {1}) {}
  void step() { sequence.step(); }
  void load_state_dict(const Value& state) { sequence.load_state_dict(state); }
  StateDict state_dict() const { return sequence.state_dict(); }
  optim::SequentialLR sequence;
};
struct Chain : Two {
  explicit Chain(Optimizer& o) : Two(o), chained({&constant, &other}) {}
  void step() { chained.step(); }
  void load_state_dict(const Value& state) { chained.load_state_dict(state); }
  StateDict state_dict() const { return chained.state_dict(); }
  optim::ChainedScheduler chained;
};

using MakeStepper = std::function<Stepper(Optimizer&)>;
// With other options than those of the file.
const std::vector<std::pair<std::string, MakeStepper>>& makers() {
  using namespace optim;
  static const auto* const all = new std::vector<std::pair<std::string, MakeStepper>>{
      {"StepLR", [](Optimizer& o) { return stepper<StepLR>(o, StepLROptions{.step_size = 9}); }},
      {"MultiStepLR",
       [](Optimizer& o) { return stepper<MultiStepLR>(o, MultiStepLROptions{.milestones = {9}}); }},
      {"ConstantLR", [](Optimizer& o) { return stepper<ConstantLR>(o, ConstantLROptions{}); }},
      {"LinearLR", [](Optimizer& o) { return stepper<LinearLR>(o, LinearLROptions{}); }},
      {"ExponentialLR",
       [](Optimizer& o) { return stepper<ExponentialLR>(o, ExponentialLROptions{.gamma = 0.5}); }},
      {"PolynomialLR",
       [](Optimizer& o) { return stepper<PolynomialLR>(o, PolynomialLROptions{}); }},
      {"CosineAnnealingLR",
       [](Optimizer& o) {
         return stepper<CosineAnnealingLR>(o, CosineAnnealingLROptions{.T_max = 5});
       }},
      {"CosineAnnealingWarmRestarts",
       [](Optimizer& o) {
         return stepper<CosineAnnealingWarmRestarts>(o,
                                                     CosineAnnealingWarmRestartsOptions{.T_0 = 5});
       }},
      {"SWALR", [](Optimizer& o) { return stepper<SWALR>(o, SWALROptions{.swa_lr = {0.01}}); }},
      {"LambdaLR",
       [](Optimizer& o) {
         return stepper<LambdaLR>(o, LambdaLROptions{{[](std::int64_t epoch) {
                                    return 1.0 / (1.0 + static_cast<double>(epoch));
                                  }}});
       }},
      {"WarmupStableDecayLR",
       [](Optimizer& o) {
         return stepper<WarmupStableDecayLR>(o, WarmupStableDecayLROptions{.num_warmup_steps = 3,
                                                                           .num_decay_steps = 4,
                                                                           .num_stable_steps = 2,
                                                                           .decay_type = "linear"});
       }},
      {"CyclicLR",
       [](Optimizer& o) {
         return stepper<CyclicLR>(o, CyclicLROptions{.base_lr = {0.2}, .max_lr = {0.3}});
       }},
      {"OneCycleLR",
       [](Optimizer& o) {
         return stepper<OneCycleLR>(o, OneCycleLROptions{.max_lr = {0.1}, .total_steps = 5});
       }},
      {"SequentialLR", [](Optimizer& o) { return stepper<Sequence>(o); }},
      {"ChainedScheduler", [](Optimizer& o) { return stepper<Chain>(o); }},
      {"ReduceLROnPlateau", [](Optimizer& o) { return stepper<ReduceLROnPlateau>(o); }},
  };
  return *all;
}

// Of the optimizer in the file.
std::vector<optim::ParamGroup<optim::SGDOptions>> two_groups() {
  return {{{ones({2}, {.requires_grad = true})}, {.lr = 0.1, .momentum = 0.9}},
          {{ones({1}, {.requires_grad = true})}, {.lr = 0.2, .momentum = 0.9}}};
}

TEST(PthStates, ASchedulerGoesOnWherePyTorchsStopped) {
  const Value file = load_pth(torch_file("schedulers"));
  for (const auto& [name, make] : makers()) {
    SCOPED_TRACE(name);
    const Value& saved = file.at(name);
    optim::SGD sgd(two_groups());
    const Stepper scheduler = make(sgd);
    sgd.load_state_dict(saved.at("optimizer"));
    scheduler.load(saved.at("scheduler"));
    sgd.step();
    for (const Value& rates : saved.at("rates").as_list()) {
      scheduler.step();
      EXPECT_NEAR(sgd.lr(0), rates.as_list()[0].as_float(), 1e-12);
      EXPECT_NEAR(sgd.lr(1), rates.as_list()[1].as_float(), 1e-12);
    }
  }
}

TEST(PthStates, ASchedulerTakesItsOwnStateFromAFile) {
  const TemporaryDirectory dir;
  for (const auto& [name, make] : makers()) {
    SCOPED_TRACE(name);
    optim::SGD sgd(two_groups());
    const Stepper scheduler = make(sgd);
    sgd.step();
    for (int i = 0; i < 3; ++i) scheduler.step();
    const std::string path = dir.path() + "/" + name;
    save_pth(path, Value::Dict{{"scheduler", scheduler.state()}, {"sgd", sgd.torch_state_dict()}});
    optim::SGD other(two_groups());
    const Stepper copy = make(other);
    other.load_state_dict(load_pth(path).at("sgd"));
    copy.load(load_pth(path).at("scheduler"));
    other.step();
    scheduler.step();
    copy.step();
    EXPECT_EQ(other.lr(0), sgd.lr(0));
  }
}

TEST(PthStates, ASchedulerRefusesTheStateOfAnotherKind) {
  const Value file = load_pth(torch_file("schedulers"));
  for (const auto& [name, make] : makers()) {
    optim::SGD sgd(two_groups());
    const Stepper scheduler = make(sgd);
    const auto before = scheduler.state();
    const char* const other = name == "StepLR" ? "LinearLR" : "StepLR";
    EXPECT_THAT([&] { scheduler.load(file.at(other).at("scheduler")); },
                ThrowsMessage<Error>(HasSubstr(name + ": load_state_dict: ")))
        << name;
    EXPECT_THAT([&] { scheduler.load(file.at(name)); },
                ThrowsMessage<Error>(HasSubstr(name + ": load_state_dict: ")))
        << name;
    const auto after = scheduler.state();
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].tensor.to(DType::kF64).sum().item<double>(),
                after[i].tensor.to(DType::kF64).sum().item<double>())
          << name << " " << before[i].name;
    }
  }
  optim::SGD sgd(two_groups());
  optim::StepLR step(sgd, {.step_size = 3});
  EXPECT_THAT([&] { step.load_state_dict(file.at("LinearLR").at("scheduler")); },
              ThrowsMessage<Error>("StepLR: load_state_dict: the state has \"start_factor\", which "
                                   "StepLR does not; was it written by another scheduler?"));
}

TEST(PthStates, OneCycleLRAsksForTheStateOfItsOptimizer) {
  optim::SGD sgd(two_groups());
  optim::OneCycleLR cycle(sgd, {.max_lr = {0.1}, .total_steps = 9, .cycle_momentum = false});
  cycle.load_state_dict(load_pth(torch_file("schedulers")).at("OneCycleLR").at("scheduler"));
  sgd.step();
  EXPECT_THAT([&] { cycle.step(); },
              ThrowsMessage<Error>("OneCycleLR: parameter group 0 of the optimizer has no "
                                   "\"max_momentum\", which the loaded state needs; load the "
                                   "optimizer's state, too"));
}

TEST(PthStates, AGradScalerTakesPyTorchsStateAndItsOwn) {
  const TemporaryDirectory dir;
  amp::GradScaler scaler;
  scaler.load_state_dict(load_pth(torch_file("schedulers")).at("GradScaler"));
  save_pth(dir.path() + "/f", scaler.state_dict());
  amp::GradScaler other;
  other.load_state_dict(load_pth(dir.path() + "/f"));
  for (const amp::GradScaler* const each : {&scaler, &other}) {
    EXPECT_EQ(each->get_scale(), 1024.0);
    EXPECT_EQ(each->get_growth_factor(), 3.0);
    EXPECT_EQ(each->get_growth_interval(), 7);
    EXPECT_EQ(find(each->state_dict(), "_growth_tracker")->item<std::int32_t>(), 5);
  }
  EXPECT_THAT([&] { scaler.load_state_dict(Value(Value::Dict{})); },
              ThrowsMessage<Error>(HasSubstr("\"scale\" is missing")));
  EXPECT_THAT([&] { scaler.load_state_dict(Value(Value::Dict{{"scale", "x"}})); },
              ThrowsMessage<Error>(HasSubstr("the state is no dict of names and numbers")));
}

}  // namespace
}  // namespace dl::nn
