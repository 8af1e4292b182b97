#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/graph/leaf.h"
#include "core/base/error.h"
#include "core/base/log/warn_once.h"
#include "core/tensor/factories.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/optim/lr_scheduler/compose/chained.h"
#include "nn/optim/lr_scheduler/compose/sequential.h"
#include "nn/optim/lr_scheduler/cycle/cycle.h"
#include "nn/optim/lr_scheduler/reduce_on_plateau.h"
#include "nn/optim/lr_scheduler/schedules.h"
#include "nn/serialize/value.h"
#include "tests/nn/support.h"

namespace dl::optim {
namespace {

const parity::Arrays& torch_rates() {
  static const parity::Arrays kArrays("schedulers");
  return kArrays;
}

Tensor parameter() {
  return zeros({1}).requires_grad_();
}

// Two groups with rates of 0.1 and 0.02, as in make_arrays.py.
SGD two_groups() {
  return SGD({{.params = {parameter()}, .options = {.lr = 0.1, .momentum = 0.9}},
              {.params = {parameter()}, .options = {.lr = 0.02, .momentum = 0.9}}});
}

// Steps 50 times, and compares the rates before each step and at the end with PyTorch's.
void expect_rates(const std::string& name, SGD& opt,
                  const std::function<void(std::size_t step)>& step) {
  const auto rates = torch_rates().get<double>(name);
  const auto momenta = torch_rates().has(name + ".momentum")
                           ? torch_rates().get<double>(name + ".momentum")
                           : std::vector<double>();
  ASSERT_EQ(rates.size(), 102u);
  for (std::size_t i = 0; i <= 50; ++i) {
    for (std::size_t g = 0; g < 2; ++g) {
      const double wanted = rates[2 * i + g];
      EXPECT_NEAR(opt.lr(g), wanted, 1e-12 * std::max(0.01, std::abs(wanted)))
          << name << ", group " << g << ", after step " << i;
      if (!momenta.empty()) {
        EXPECT_NEAR(opt.options(g).momentum, momenta[2 * i + g], 1e-12) << name << ", step " << i;
      }
    }
    if (i < 50) step(i);
  }
}

void expect_rates(const std::string& name, SGD& opt, const std::vector<LRScheduler*>& schedulers) {
  expect_rates(name, opt, [&](std::size_t) {
    for (LRScheduler* scheduler : schedulers) scheduler->step();
  });
}

template <typename Scheduler, typename Options>
void expect_rates(const std::string& name, Options options) {
  SGD opt = two_groups();
  Scheduler scheduler(opt, std::move(options));
  expect_rates(name, opt, std::vector<LRScheduler*>{&scheduler});
  EXPECT_EQ(scheduler.last_epoch(), 50);
  EXPECT_EQ(scheduler.get_last_lr(), (std::vector{opt.lr(0), opt.lr(1)}));
}

TEST(LRScheduler, GivesPyTorchsRates) {
  using Epoch = std::int64_t;
  expect_rates<StepLR>("step", StepLROptions{.step_size = 7, .gamma = 0.3});
  expect_rates<MultiStepLR>("multi_step",
                            MultiStepLROptions{.milestones = {3, 20, 20, 31}, .gamma = 0.5});
  expect_rates<ConstantLR>("constant", ConstantLROptions{.factor = 0.25, .total_iters = 8});
  expect_rates<LinearLR>(
      "linear", LinearLROptions{.start_factor = 0.2, .end_factor = 0.7, .total_iters = 13});
  expect_rates<ExponentialLR>("exponential", ExponentialLROptions{.gamma = 0.93});
  expect_rates<PolynomialLR>("polynomial", PolynomialLROptions{.total_iters = 40, .power = 1.7});
  expect_rates<CosineAnnealingLR>("cosine",
                                  CosineAnnealingLROptions{.T_max = 12, .eta_min = 0.001});
  expect_rates<CosineAnnealingWarmRestarts>(
      "warm_restarts", CosineAnnealingWarmRestartsOptions{.T_0 = 5, .T_mult = 2, .eta_min = 0.002});
  expect_rates<CosineAnnealingWarmRestarts>("warm_restarts_even",
                                            CosineAnnealingWarmRestartsOptions{.T_0 = 6});
  expect_rates<LambdaLR>(
      "lambda", LambdaLROptions{{[](Epoch e) { return 1 / (1 + static_cast<double>(e)); }}});
  expect_rates<LambdaLR>("lambdas",
                         LambdaLROptions{{[](Epoch e) { return std::pow(0.9, e); },
                                          [](Epoch e) { return 1 + static_cast<double>(e); }}});
  expect_rates<MultiplicativeLR>(
      "multiplicative",
      MultiplicativeLROptions{{[](Epoch e) { return 1 - static_cast<double>(e) / 100; }}});
}

TEST(WarmupStableDecayLR, GivesTheRatesOfTransformers) {
  using Options = WarmupStableDecayLROptions;
  expect_rates<WarmupStableDecayLR>(
      "wsd", Options{.num_warmup_steps = 10, .num_decay_steps = 15, .num_stable_steps = 20});
  expect_rates<WarmupStableDecayLR>(
      "wsd", Options{.num_warmup_steps = 10, .num_decay_steps = 15, .num_training_steps = 45});
  expect_rates<WarmupStableDecayLR>("wsd_linear", Options{.num_warmup_steps = 7,
                                                          .num_decay_steps = 20,
                                                          .num_training_steps = 40,
                                                          .warmup_type = "cosine",
                                                          .decay_type = "linear",
                                                          .min_lr_ratio = 0.1});
  expect_rates<WarmupStableDecayLR>("wsd_sqrt", Options{.num_warmup_steps = 9,
                                                        .num_decay_steps = 30,
                                                        .num_stable_steps = 11,
                                                        .warmup_type = "1-sqrt",
                                                        .decay_type = "1-sqrt",
                                                        .min_lr_ratio = 0.05});
  expect_rates<WarmupStableDecayLR>("wsd_waves", Options{.num_warmup_steps = 0,
                                                         .num_decay_steps = 45,
                                                         .num_stable_steps = 0,
                                                         .min_lr_ratio = 0.2,
                                                         .num_cycles = 1.5});
  expect_rates<WarmupStableDecayLR>("wsd_abrupt", Options{.num_warmup_steps = 0,
                                                          .num_decay_steps = 0,
                                                          .num_training_steps = 25,
                                                          .min_lr_ratio = 0.25});
}

TEST(WarmupStableDecayLR, RefusesBadOptions) {
  SGD opt = two_groups();
  using Options = WarmupStableDecayLROptions;
  const auto refused = [&](const Options& options, const std::string& text) {
    EXPECT_ERROR(WarmupStableDecayLR(opt, options), kInvalidArgument,
                 "WarmupStableDecayLR: " + text);
  };
  refused({.num_warmup_steps = -1, .num_decay_steps = 1, .num_stable_steps = 1},
          "num_warmup_steps is -1, wanted at least 0");
  refused({.num_warmup_steps = 1, .num_decay_steps = -1, .num_stable_steps = 1},
          "num_decay_steps is -1, wanted at least 0");
  refused({.num_warmup_steps = 1, .num_decay_steps = 1, .num_stable_steps = -1},
          "num_stable_steps is -1, wanted at least 0");
  refused({.num_warmup_steps = 1, .num_decay_steps = 1},
          "none of num_training_steps and num_stable_steps is given, wanted one");
  refused(
      {.num_warmup_steps = 1, .num_decay_steps = 1, .num_training_steps = 3, .num_stable_steps = 1},
      "each of num_training_steps and num_stable_steps is given, wanted one");
  refused({.num_warmup_steps = 5, .num_decay_steps = 6, .num_training_steps = 10},
          "num_training_steps is 10, wanted at least num_warmup_steps (5) and num_decay_steps (6) "
          "together");
  refused({.num_warmup_steps = 1,
           .num_decay_steps = std::numeric_limits<std::int64_t>::max(),
           .num_training_steps = 10},
          "num_training_steps is 10, wanted at least num_warmup_steps (1) and num_decay_steps "
          "(9223372036854775807) together");
  refused({.num_warmup_steps = 1,
           .num_decay_steps = 1,
           .num_stable_steps = 1,
           .decay_type = "exponential"},
          "decay_type is \"exponential\", wanted \"linear\", \"cosine\" or \"1-sqrt\"");
  refused({.num_warmup_steps = 1, .num_decay_steps = 1, .num_stable_steps = 1, .min_lr_ratio = 1.5},
          "min_lr_ratio is 1.5, wanted 0 to 1");
  refused({.num_warmup_steps = 1,
           .num_decay_steps = 1,
           .num_stable_steps = 1,
           .num_cycles = std::nan("")},
          "num_cycles is nan, wanted a finite number");
  EXPECT_EQ(opt.lr(0), 0.1);
}

TEST(LRScheduler, ChainsAsPyTorchsDo) {
  SGD opt = two_groups();
  ExponentialLR exponential(opt, {.gamma = 0.95});
  LinearLR linear(opt, {.start_factor = 0.1, .end_factor = 1, .total_iters = 10});
  StepLR step(opt, {.step_size = 9, .gamma = 0.5});
  expect_rates("chained", opt, {&exponential, &linear, &step});
}

TEST(SequentialLR, GivesPyTorchsRates) {
  SGD opt = two_groups();
  LinearLR warmup(opt, {.start_factor = 0.1, .end_factor = 1, .total_iters = 5});
  CosineAnnealingLR cosine(opt, {.T_max = 30});
  ExponentialLR exponential(opt, {.gamma = 0.9});
  SequentialLR scheduler(opt, {&warmup, &cosine, &exponential}, {5, 35});
  expect_rates("sequential", opt, {&scheduler});
}

// SWALR and MultiplicativeLR have no rate of their own to begin with.
TEST(SequentialLR, GoesOnFromThePresentRateWherePyTorchDoes) {
  using Epoch = std::int64_t;
  SGD opt = two_groups();
  ExponentialLR exponential(opt, {.gamma = 0.9});
  SWALR swa(opt, {.swa_lr = {0.05}, .anneal_epochs = 6});
  MultiplicativeLR multiplicative(opt,
                                  {{[](Epoch e) { return 0.97 - static_cast<double>(e) / 200; }}});
  SequentialLR scheduler(opt, {&exponential, &swa, &multiplicative}, {4, 20});
  expect_rates("sequential_from_present", opt, {&scheduler});
}

TEST(SequentialLR, BeginsEachScheduleAsPyTorchDoes) {
  using Epoch = std::int64_t;
  SGD opt = two_groups();
  ConstantLR constant(opt, {.factor = 0.5, .total_iters = 3});
  MultiStepLR multi_step(opt, {.milestones = {0, 2}, .gamma = 0.5});
  StepLR step(opt, {.step_size = 3, .gamma = 0.7});
  PolynomialLR polynomial(opt, {.total_iters = 9, .power = 1.5});
  CosineAnnealingWarmRestarts restarts(opt, {.T_0 = 4});
  LambdaLR lambda(opt, {{[](Epoch e) { return 1 / (1 + static_cast<double>(e)); }}});
  ConstantLR none(opt, {.factor = 0.25, .total_iters = 0});
  LinearLR linear(opt, {.start_factor = 0.3, .end_factor = 0.8, .total_iters = 5});
  MultiplicativeLR multiplicative(opt, {{[](Epoch) { return 0.9; }}});
  SequentialLR scheduler(opt,
                         {&constant, &multi_step, &step, &polynomial, &restarts, &lambda, &none,
                          &linear, &multiplicative},
                         {5, 10, 16, 22, 28, 33, 38, 42});
  expect_rates("sequential_of_all", opt, {&scheduler});
}

TEST(SequentialLR, TakesAStepOfASequenceThatIsItsFirst) {
  SGD opt = two_groups();
  ExponentialLR exponential(opt, {.gamma = 0.9});
  SWALR swa(opt, {.swa_lr = {0.05}, .anneal_epochs = 0});
  SequentialLR inner(opt, {&exponential, &swa}, {7});
  MultiplicativeLR multiplicative(opt, {{[](std::int64_t) { return 0.95; }}});
  SequentialLR scheduler(opt, {&inner, &multiplicative}, {15});
  expect_rates("sequential_nested", opt, {&scheduler});
}

TEST(LRScheduler, TakesATotalOfNoStepsAsPyTorchDoes) {
  SGD opt = two_groups();
  ConstantLR constant(opt, {.factor = 0.25, .total_iters = 0});
  PolynomialLR polynomial(opt, {.total_iters = 0});
  LinearLR linear(opt, {.start_factor = 0.5, .total_iters = 0});
  expect_rates("constant_0", opt, {&constant, &polynomial, &linear});
}

// As PyTorch: once, and not if the optimizer has stepped.
TEST(SequentialLR, ANestMayBeginWithAPolynomialOfNoSteps) {
  SGD opt = two_groups();
  const double before = opt.lr(0);
  PolynomialLR polynomial(opt, {.total_iters = 0});
  StepLR step(opt, {.step_size = 3});
  SequentialLR inner(opt, {&polynomial, &step}, {5});
  StepLR last(opt, {.step_size = 3});
  const SequentialLR outer(opt, {&inner, &last}, {9});
  EXPECT_EQ(opt.lr(0), before);
}

TEST(LRScheduler, WarnsIfItStepsBeforeTheOptimizer) {
  detail::forget_written_lines();
  const auto log_of = [](bool optimizer_first, std::size_t steps) {
    SGD opt = two_groups();
    ExponentialLR exponential(opt, {.gamma = 0.9});
    LambdaLR lambda(opt, {{[](std::int64_t) { return 1.0; }}});
    SequentialLR scheduler(opt, {&exponential, &lambda}, {2});
    ::testing::internal::CaptureStderr();
    for (std::size_t i = 0; i < steps; ++i) {
      if (optimizer_first) opt.step();
      scheduler.step();
      if (!optimizer_first) opt.step();
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_of(true, 3), "");
  const std::string log = log_of(false, 3);
  EXPECT_NE(log.find("SequentialLR: step() comes before the optimizer's first step(), so that the "
                     "schedule's first rate is skipped; call the optimizer's step() first"),
            std::string::npos)
      << log;
  EXPECT_EQ(log_of(false, 3), "");  // told already
}

TEST(OneCycleLR, GivesPyTorchsRatesAndMomenta) {
  expect_rates<OneCycleLR>("one_cycle", OneCycleLROptions{.max_lr = {0.4}, .total_steps = 50});
  expect_rates<OneCycleLR>("one_cycle_linear", OneCycleLROptions{.max_lr = {0.4, 0.2},
                                                                 .total_steps = 50,
                                                                 .pct_start = 0.4,
                                                                 .anneal_strategy = "linear",
                                                                 .base_momentum = {0.8},
                                                                 .max_momentum = {0.9, 0.99},
                                                                 .div_factor = 10,
                                                                 .three_phase = true});
}

TEST(OneCycleLR, CyclesAdamsFirstBetaAndRefusesAStepTooMany) {
  Adam adam({parameter()});
  OneCycleLR scheduler(adam, {.max_lr = {0.1}, .total_steps = 10});
  EXPECT_EQ(adam.options().betas.first, 0.95);
  for (int i = 0; i < 10; ++i) scheduler.step();
  const double last = adam.lr();
  EXPECT_ERROR(scheduler.step(), kInvalidArgument,
               "OneCycleLR: step 11 of a schedule of 10 steps (total_steps)");
  EXPECT_EQ(scheduler.last_epoch(), 10);
  EXPECT_EQ(adam.lr(), last);
}

TEST(OneCycleLR, BeginsAgainAfterAnother) {
  SGD opt = two_groups();
  const OneCycleLR first(opt, {.max_lr = {0.4}, .total_steps = 20});
  OneCycleLR second(opt, {.max_lr = {0.3}, .total_steps = 50, .pct_start = 0.5});
  expect_rates("one_cycle_again", opt, {&second});
}

// PyTorch keeps the rates in the parameter groups; the numbers are its.
TEST(OneCycleLR, StepsBetweenTheRatesOfTheOneMadeLast) {
  SGD opt = two_groups();
  OneCycleLR first(opt, {.max_lr = {0.4}, .total_steps = 20});
  const OneCycleLR last(opt, {.max_lr = {0.3, 0.2},
                              .total_steps = 50,
                              .base_momentum = {0.7},
                              .max_momentum = {0.8},
                              .div_factor = 10,
                              .final_div_factor = 100});
  const auto expect = [&](double rate, double other, double momentum) {
    EXPECT_NEAR(opt.lr(0), rate, 1e-15);
    EXPECT_NEAR(opt.lr(1), other, 1e-15);
    EXPECT_NEAR(opt.options(1).momentum, momentum, 1e-15);
  };
  first.step();
  expect(0.05578270575938207, 0.037188470506254734, 0.7904508497187475);
  for (int i = 1; i < 13; ++i) first.step();
  expect(0.11680523804664628, 0.0778701586977642, 0.7611260466978157);
  for (int i = 13; i < 19; ++i) first.step();
  expect(0.0003, 0.0002, 0.8);
}

TEST(OneCycleLR, CyclesBetweenTheMomentaOfALaterCyclicLR) {
  SGD opt = two_groups();
  OneCycleLR first(opt, {.max_lr = {0.4}, .total_steps = 20});
  const CyclicLR last(opt, {.base_lr = {0.01},
                            .max_lr = {0.3},
                            .step_size_up = 5,
                            .base_momentum = {0.6},
                            .max_momentum = {0.7}});
  for (int i = 0; i < 3; ++i) first.step();
  EXPECT_NEAR(opt.lr(1), 0.2673312629199899, 1e-15);
  EXPECT_NEAR(opt.options(1).momentum, 0.6345491502812526, 1e-15);
}

// A scheduler of PyTorch's goes on from the optimizer's file only if it finds these there.
TEST(SchedulerOptions, AreInTheOptimizersState) {
  SGD opt = two_groups();
  const OneCycleLR cycle(opt, {.max_lr = {0.4, 0.2}, .total_steps = 20});
  const SWALR swa(opt, {.swa_lr = {0.05}});
  const auto expect = [](const Optimizer& holder) {
    const nn::StateDict state = holder.state_dict();
    const nn::Value torch_state = holder.torch_state_dict();
    const nn::Value& group = torch_state.at("param_groups").as_list()[1];
    for (const auto& [name, value] : {std::pair("initial_lr", 0.008),
                                      {"max_lr", 0.2},
                                      {"min_lr", 8e-7},
                                      {"base_momentum", 0.85},
                                      {"max_momentum", 0.95},
                                      {"swa_lr", 0.05}}) {
      EXPECT_DOUBLE_EQ(group.at(name).as_float(), value) << name;
      const Tensor* const found = nn::find(state, std::string("param_groups.1.") + name);
      ASSERT_NE(found, nullptr) << name;
      EXPECT_DOUBLE_EQ(found->item<double>(), value) << name;
    }
  };
  expect(opt);
  SGD from_torch = two_groups();
  from_torch.load_state_dict(opt.torch_state_dict());
  expect(from_torch);
  SGD from_own = two_groups();
  from_own.load_state_dict(opt.state_dict());
  expect(from_own);
}

TEST(SchedulerOptions, OfALoadedOptimizerWin) {
  SGD saved = two_groups();
  const OneCycleLR of_saved(saved, {.max_lr = {0.3}, .total_steps = 20});
  SGD opt = two_groups();
  OneCycleLR scheduler(opt, {.max_lr = {0.4}, .total_steps = 20});
  const nn::StateDict of_no_scheduler = two_groups().state_dict();
  opt.load_state_dict(of_no_scheduler);
  EXPECT_EQ(opt.scheduler_option(SchedulerOption::kMaxLr), 0.4);
  EXPECT_NO_THROW(scheduler.step());
  opt.load_state_dict(saved.state_dict());
  for (int i = 1; i < 5; ++i) scheduler.step();
  EXPECT_DOUBLE_EQ(opt.lr(), 0.3);
}

TEST(CyclicLR, GivesPyTorchsRatesAndMomenta) {
  expect_rates<CyclicLR>(
      "cyclic",
      CyclicLROptions{.base_lr = {0.01}, .max_lr = {0.3}, .step_size_up = 7, .step_size_down = 4});
  expect_rates<CyclicLR>("cyclic_groups", CyclicLROptions{.base_lr = {0.01, 0.002},
                                                          .max_lr = {0.1, 0.3},
                                                          .step_size_up = 6,
                                                          .mode = "triangular2",
                                                          .base_momentum = {0.7, 0.75},
                                                          .max_momentum = {0.9, 0.85}});
  expect_rates<CyclicLR>("cyclic_exp", CyclicLROptions{.base_lr = {0.01},
                                                       .max_lr = {0.3},
                                                       .step_size_up = 5,
                                                       .step_size_down = 0,
                                                       .mode = "exp_range",
                                                       .gamma = 0.97});
  expect_rates<CyclicLR>("cyclic_scaled",
                         CyclicLROptions{.base_lr = {0.01},
                                         .max_lr = {0.3},
                                         .step_size_up = 5,
                                         .scale_fn = [](double x) { return 1 / (1 + x); },
                                         .scale_mode = "iterations",
                                         .cycle_momentum = false});
}

TEST(CyclicLR, BesideAndBehindOthersGivesPyTorchsRates) {
  {
    SGD opt = two_groups();
    ExponentialLR exponential(opt, {.gamma = 0.9});
    CyclicLR cyclic(opt, {.base_lr = {0.01}, .max_lr = {0.3}, .step_size_up = 5});
    expect_rates("cyclic_second", opt, {&exponential, &cyclic});
  }
  SGD opt = two_groups();
  LinearLR warmup(opt, {.start_factor = 0.1, .end_factor = 1, .total_iters = 5});
  CyclicLR cyclic(opt, {.base_lr = {0.03}, .max_lr = {0.3}, .step_size_up = 5});
  SequentialLR scheduler(opt, {&warmup, &cyclic}, {6});
  expect_rates("cyclic_sequential", opt, {&scheduler});
}

TEST(CyclicLR, ContinuesFromItsState) {
  const auto begun = [](SGD& opt) {
    return std::make_unique<CyclicLR>(
        opt, CyclicLROptions{.base_lr = {0.01}, .max_lr = {0.3}, .step_size_up = 7});
  };
  SGD opt = two_groups();
  const auto scheduler = begun(opt);
  for (int i = 0; i < 9; ++i) scheduler->step();
  SGD opt2 = two_groups();
  const auto scheduler2 = begun(opt2);
  scheduler2->load_state_dict(scheduler->state_dict());
  for (int i = 9; i < 30; ++i) {
    scheduler->step();
    scheduler2->step();
    EXPECT_EQ(opt.lr(1), opt2.lr(1)) << i;
    EXPECT_EQ(opt.options(1).momentum, opt2.options(1).momentum) << i;
  }
}

TEST(CyclicLR, RefusesBadOptionsAndChangesNothing) {
  SGD opt = two_groups();
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {1, 2, 3}, .max_lr = {5}}), kInvalidArgument,
               "CyclicLR: base_lr has 3 numbers, wanted 1 or one for each of 2 parameter groups");
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {1}, .max_lr = {5}, .step_size_up = 0}), kInvalidArgument,
               "CyclicLR: step_size_up is 0, wanted at least 1");
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {1}, .max_lr = {5}, .step_size_down = -1}),
               kInvalidArgument, "CyclicLR: step_size_down is -1, wanted at least 0");
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {1}, .max_lr = {5}, .mode = "round"}), kInvalidArgument,
               "CyclicLR: mode is \"round\", wanted \"triangular\", \"triangular2\" or "
               "\"exp_range\"");
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {1}, .max_lr = {5}, .scale_mode = "steps"}),
               kInvalidArgument,
               "CyclicLR: scale_mode is \"steps\", wanted \"cycle\" or \"iterations\"");
  EXPECT_EQ(opt.lr(0), 0.1);
  EXPECT_EQ(opt.options(0).momentum, 0.9);
}

TEST(ChainedScheduler, GivesPyTorchsRatesAndContinues) {
  const auto run = [](SGD& opt, const std::function<void(ChainedScheduler&)>& use) {
    ConstantLR constant(opt, {.factor = 0.1, .total_iters = 4});
    ExponentialLR exponential(opt, {.gamma = 0.9});
    CosineAnnealingLR cosine(opt, {.T_max = 12});
    ChainedScheduler scheduler({&constant, &exponential, &cosine});
    EXPECT_EQ(scheduler.get_last_lr(), (std::vector{opt.lr(0), opt.lr(1)}));
    use(scheduler);
  };
  SGD opt = two_groups();
  run(opt, [&](ChainedScheduler& scheduler) {
    expect_rates("chained_scheduler", opt, [&](std::size_t) { scheduler.step(); });
    EXPECT_EQ(scheduler.get_last_lr(), (std::vector{opt.lr(0), opt.lr(1)}));
  });

  SGD first = two_groups();
  nn::StateDict state;
  nn::StateDict of_optimizer;
  double wanted = 0;
  run(first, [&](ChainedScheduler& scheduler) {
    for (int i = 0; i < 5; ++i) scheduler.step();
    state = scheduler.state_dict();
    of_optimizer = first.state_dict();
    for (int i = 0; i < 5; ++i) scheduler.step();
    wanted = first.lr(1);
  });
  SGD second = two_groups();
  run(second, [&](ChainedScheduler& scheduler) {
    nn::StateDict less = state;
    std::erase_if(
        less, [](const nn::NamedTensor& entry) { return entry.name == "_schedulers.1.base_lrs"; });
    EXPECT_THROW(scheduler.load_state_dict(less), Error);
    EXPECT_EQ(values<double>(*nn::find(scheduler.state_dict(), "_schedulers.0.last_epoch")),
              std::vector<double>{0});
    scheduler.load_state_dict(state);
    second.load_state_dict(of_optimizer);
    for (int i = 0; i < 5; ++i) scheduler.step();
    EXPECT_EQ(second.lr(1), wanted);
  });
}

TEST(ChainedScheduler, RefusesNoneAndThoseOfAnother) {
  EXPECT_ERROR(ChainedScheduler({}), kInvalidArgument,
               "ChainedScheduler: there is no scheduler, wanted at least one");
  SGD opt = two_groups();
  SGD foreign = two_groups();
  StepLR step(opt, {.step_size = 1});
  StepLR of_another(foreign, {.step_size = 1});
  EXPECT_ERROR(ChainedScheduler({&step, &of_another}), kInvalidArgument,
               "ChainedScheduler: scheduler 1 is null or another optimizer's");
  EXPECT_ERROR(ChainedScheduler({nullptr}), kInvalidArgument,
               "ChainedScheduler: scheduler 0 is null or another optimizer's");
}

TEST(ReduceLROnPlateau, GivesPyTorchsRates) {
  const auto metrics = torch_rates().get<double>("metrics");
  {
    SGD opt = two_groups();
    ReduceLROnPlateau scheduler(
        opt, {.factor = 0.5, .patience = 3, .cooldown = 2, .min_lr = {0.001, 0.005}});
    expect_rates("plateau", opt, [&](std::size_t i) { scheduler.step(metrics[i]); });
    EXPECT_EQ(scheduler.get_last_lr(), (std::vector{opt.lr(0), opt.lr(1)}));
  }
  SGD opt = two_groups();
  ReduceLROnPlateau scheduler(
      opt, {.mode = "max", .patience = 2, .threshold = 0.01, .threshold_mode = "abs"});
  expect_rates("plateau_max", opt,
               [&](std::size_t i) { scheduler.step(tensor(metrics[i], {.dtype = DType::kF64})); });
}

TEST(ReduceLROnPlateau, KeepsTheRatesOfItsLastStep) {
  SGD opt({parameter()}, {.lr = 0.1});
  ReduceLROnPlateau scheduler(opt);
  opt.lr() = 0.5;
  EXPECT_EQ(scheduler.get_last_lr(), std::vector{0.1});
  scheduler.step(1);
  EXPECT_EQ(scheduler.get_last_lr(), std::vector{0.5});
  opt.lr() = 0.7;
  ReduceLROnPlateau other(opt);
  other.load_state_dict(scheduler.state_dict());
  EXPECT_EQ(other.get_last_lr(), std::vector{0.5});
  nn::StateDict old = scheduler.state_dict();
  std::erase_if(old, [](const nn::NamedTensor& e) { return e.name == "_last_lr"; });
  EXPECT_NO_THROW(other.load_state_dict(old));
}

TEST(ReduceLROnPlateau, CountsNaNAsNoBetter) {
  SGD opt({parameter()}, {.lr = 1});
  ReduceLROnPlateau scheduler(opt, {.patience = 0});
  scheduler.step(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(opt.lr(), 0.1);
}

// A run of 10 steps, saved, and continued by new objects goes on as the run without a stop.
TEST(LRScheduler, ContinuesFromItsState) {
  const auto metrics = torch_rates().get<double>("metrics");
  SGD opt = two_groups();
  LinearLR warmup(opt, {.start_factor = 0.1, .end_factor = 1, .total_iters = 5});
  CosineAnnealingLR cosine(opt, {.T_max = 30});
  SequentialLR scheduler(opt, {&warmup, &cosine}, {5});
  ReduceLROnPlateau plateau(opt, {.patience = 2});
  for (std::size_t i = 0; i < 20; ++i) {
    scheduler.step();
    plateau.step(metrics[i]);
  }
  const nn::StateDict of_optimizer = opt.state_dict();
  EXPECT_NE(nn::find(of_optimizer, "param_groups.1.initial_lr"), nullptr);

  SGD opt2 = two_groups();
  opt2.load_state_dict(of_optimizer);
  LinearLR warmup2(opt2, {.start_factor = 0.1, .end_factor = 1, .total_iters = 5});
  CosineAnnealingLR cosine2(opt2, {.T_max = 30});
  SequentialLR scheduler2(opt2, {&warmup2, &cosine2}, {5});
  ReduceLROnPlateau plateau2(opt2, {.patience = 2});
  scheduler2.load_state_dict(scheduler.state_dict());
  plateau2.load_state_dict(plateau.state_dict());
  opt2.load_state_dict(of_optimizer);
  EXPECT_EQ(scheduler2.last_epoch(), 20);
  for (std::size_t i = 20; i < 45; ++i) {
    scheduler.step();
    scheduler2.step();
    plateau.step(metrics[i]);
    plateau2.step(metrics[i]);
    EXPECT_EQ(opt.lr(0), opt2.lr(0)) << i;
    EXPECT_EQ(opt.lr(1), opt2.lr(1)) << i;
  }
}

TEST(LRScheduler, RefusesAStateOfAnotherAndKeepsItsOwn) {
  SGD opt = two_groups();
  StepLR step(opt, {.step_size = 2});
  StepLR other(opt, {.step_size = 3});
  SequentialLR sequence(opt, {&step, &other}, {4});
  for (int i = 0; i < 5; ++i) sequence.step();
  nn::StateDict state = sequence.state_dict();
  std::erase_if(state, [](const nn::NamedTensor& e) { return e.name == "_schedulers.1._last_lr"; });
  state.front().tensor = tensor(std::int64_t{77});
  EXPECT_ERROR(sequence.load_state_dict(state), kMismatch,
               "StepLR: load_state_dict: \"_last_lr\" has 0 numbers, wanted 2; does the state "
               "belong to another scheduler or model?");
  EXPECT_EQ(sequence.last_epoch(), 5);

  SGD one({parameter()});
  ExponentialLR exponential(one, {.gamma = 0.9});
  EXPECT_ERROR(exponential.load_state_dict(step.state_dict()), kMismatch,
               "ExponentialLR: load_state_dict: \"base_lrs\" has 2 numbers, wanted 1; does the "
               "state belong to another scheduler or model?");
}

TEST(LRScheduler, RefusesWhatIsMissing) {
  SGD opt = two_groups();
  EXPECT_ERROR(ExponentialLR(opt, {}), kInvalidArgument,
               "ExponentialLR: gamma is missing or NaN, wanted a finite number");
  EXPECT_ERROR(MultiStepLR(opt, {}), kInvalidArgument,
               "MultiStepLR: milestones is empty, wanted at least one");
  EXPECT_THROW(StepLR(opt, {}), Error);
  EXPECT_THROW(CosineAnnealingLR(opt, {}), Error);
  EXPECT_THROW(CosineAnnealingWarmRestarts(opt, {}), Error);
  EXPECT_THROW(LambdaLR(opt, {}), Error);
  EXPECT_THROW(MultiplicativeLR(opt, {}), Error);
  EXPECT_THROW(SWALR(opt, {}), Error);
  EXPECT_THROW(OneCycleLR(opt, {}), Error);
  EXPECT_THROW(OneCycleLR(opt, {.max_lr = {1}, .total_steps = {}}), Error);
  EXPECT_THROW(CyclicLR(opt, {}), Error);
  EXPECT_THROW(CyclicLR(opt, {.base_lr = {1}, .max_lr = {}}), Error);
  EXPECT_EQ(opt.lr(0), 0.1);
}

TEST(LRScheduler, RefusesNaNAndInfinities) {
  SGD opt = two_groups();
  const double nan = std::nan("");
  EXPECT_ERROR(OneCycleLR(opt, {.max_lr = {nan}, .total_steps = 5}), kInvalidArgument,
               "OneCycleLR: max_lr is nan, wanted a finite number");
  EXPECT_ERROR(OneCycleLR(opt, {.max_lr = {1}, .total_steps = 5, .div_factor = HUGE_VAL}),
               kInvalidArgument, "OneCycleLR: div_factor is inf, wanted a finite number");
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {nan}, .max_lr = {1}}), kInvalidArgument,
               "CyclicLR: base_lr is nan, wanted a finite number");
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {1}, .max_lr = {2}, .gamma = nan}), kInvalidArgument,
               "CyclicLR: gamma is nan, wanted a finite number");
  EXPECT_ERROR(CyclicLR(opt, {.base_lr = {1}, .max_lr = {2}, .base_momentum = {nan}}),
               kInvalidArgument, "CyclicLR: base_momentum is nan, wanted a finite number");
  EXPECT_ERROR(ReduceLROnPlateau(opt, {.threshold = nan}), kInvalidArgument,
               "ReduceLROnPlateau: threshold is nan, wanted a finite number");
  EXPECT_ERROR(ReduceLROnPlateau(opt, {.min_lr = {nan}}), kInvalidArgument,
               "ReduceLROnPlateau: min_lr is nan, wanted a finite number");
  EXPECT_EQ(opt.lr(0), 0.1);
}

TEST(LRScheduler, RefusesBadOptions) {
  SGD opt = two_groups();
  EXPECT_ERROR(StepLR(opt, {.step_size = 0}), kInvalidArgument,
               "StepLR: step_size is 0, wanted at least 1");
  EXPECT_ERROR(LinearLR(opt, {.start_factor = 0}), kInvalidArgument,
               "LinearLR: start_factor is 0, wanted more than 0 and at most 1");
  EXPECT_ERROR(LinearLR(opt, {.end_factor = 1.5}), kInvalidArgument,
               "LinearLR: end_factor is 1.5, wanted 0 to 1");
  EXPECT_ERROR(ConstantLR(opt, {.factor = std::nan("")}), kInvalidArgument,
               "ConstantLR: factor is nan, wanted more than 0 and at most 1");
  EXPECT_ERROR(ExponentialLR(opt, {.gamma = std::nan("")}), kInvalidArgument,
               "ExponentialLR: gamma is missing or NaN, wanted a finite number");
  EXPECT_ERROR(CosineAnnealingLR(opt, {.T_max = -1}), kInvalidArgument,
               "CosineAnnealingLR: T_max is -1, wanted at least 1");
  EXPECT_ERROR(CosineAnnealingWarmRestarts(opt, {.T_0 = 1, .T_mult = 0}), kInvalidArgument,
               "CosineAnnealingWarmRestarts: T_mult is 0, wanted at least 1");
  EXPECT_ERROR(PolynomialLR(opt, {.total_iters = -1}), kInvalidArgument,
               "PolynomialLR: total_iters is -1, wanted at least 0");
  EXPECT_ERROR(ConstantLR(opt, {.total_iters = -1}), kInvalidArgument,
               "ConstantLR: total_iters is -1, wanted at least 0");
  EXPECT_ERROR(
      LambdaLR(opt, {{}}), kInvalidArgument,
      "LambdaLR: lr_lambda has 0 functions, wanted 1 or one for each of 2 parameter groups");
  EXPECT_ERROR(MultiplicativeLR(opt, {{nullptr}}), kInvalidArgument,
               "MultiplicativeLR: lr_lambda holds an empty function");
  EXPECT_ERROR(OneCycleLR(opt, {.max_lr = {1, 2, 3}, .total_steps = 5}), kInvalidArgument,
               "OneCycleLR: max_lr has 3 numbers, wanted 1 or one for each of 2 parameter groups");
  EXPECT_ERROR(ReduceLROnPlateau(opt, {.mode = "least"}), kInvalidArgument,
               "ReduceLROnPlateau: mode is \"least\", wanted \"min\" or \"max\"");
  EXPECT_ERROR(ReduceLROnPlateau(opt, {.factor = 1}), kInvalidArgument,
               "ReduceLROnPlateau: factor is 1, wanted less than 1");
  SGD foreign = two_groups();
  StepLR step(opt, {.step_size = 1});
  StepLR of_another(foreign, {.step_size = 1});
  EXPECT_ERROR(SequentialLR(opt, {&step, &of_another}, {2}), kInvalidArgument,
               "SequentialLR: scheduler 1 is null or another optimizer's");
  EXPECT_ERROR(
      SequentialLR(opt, {&step}, {2}), kInvalidArgument,
      "SequentialLR: 1 schedulers and 1 milestones, wanted one milestone fewer than schedulers");
  EXPECT_ERROR(SequentialLR(opt, {&step, &step, &step}, {2, 2}), kInvalidArgument,
               "SequentialLR: milestones 2, 2 do not rise");
}

TEST(LRScheduler, RefusesAGroupThatItDoesNotKnow) {
  SGD opt({parameter()});
  StepLR scheduler(opt, {.step_size = 1});
  opt.add_param_group({parameter()}, {});
  EXPECT_ERROR(scheduler.step(), kInvalidArgument,
               "StepLR: the optimizer has 2 parameter groups, 1 when the scheduler was made; make "
               "the scheduler after the last add_param_group()");
  EXPECT_EQ(scheduler.last_epoch(), 0);
}

}  // namespace
}  // namespace dl::optim
