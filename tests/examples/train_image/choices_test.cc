// The tables of train_image: every row makes what its name says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "examples/support/training/choices/optimizers.h"
#include "examples/support/training/choices/schedules.h"
#include "examples/train_image/choices/augment.h"
#include "examples/train_image/choices/models.h"
#include "nn/functional/functional.h"
#include "nn/models/resnet.h"
#include "nn/optim/algorithms/algorithms.h"

namespace dl::examples {
namespace {

using testing::HasSubstr;

TEST(Models, ARowOfANameThatIsNotThereListsTheOthers) {
  EXPECT_THAT([] { find_model("vgg"); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("--model is vgg, wanted one of book, resnet18, resnet34")));
}

TEST(Models, TakeTheSmallestImagesOfTheirRow) {
  for (const char* name :
       {"book", "resnet18", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "vit"}) {
    const ModelRow& row = find_model(name);
    const ImageInput input{.channels = 3, .side = row.least_side, .classes = 7};
    const auto model = row.make(input);
    model->eval();
    EXPECT_EQ((*model)(ones({2, 3, input.side, input.side})).sizes(), (Shape{2, 7})) << name;
  }
}

TEST(Models, LearnFromTheSmallestImagesOfTheirRow) {
  for (const char* name : {"mobilenet_v2", "mobilenet_v3_small", "vit"}) {
    manual_seed(1);
    const ModelRow& row = find_model(name);
    const ImageInput input{.channels = 3, .side = row.least_side, .classes = 3};
    const auto model = row.make(input);
    optim::SGD optimizer(model->parameters(), {.lr = 0.01});
    const Tensor x = randn({8, 3, input.side, input.side});
    const Tensor y = randint(0, 3, {8});
    std::vector<double> losses;
    for (int step = 0; step < 2; ++step) {
      manual_seed(2);  // of dropout
      optimizer.zero_grad();
      const Tensor loss = nn::functional::cross_entropy((*model)(x), y);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    EXPECT_LT(losses[1], losses[0]) << name;
  }
}

TEST(Models, AResNetForLargeImagesIsTorchvisions) {
  const ImageInput large{.channels = 3, .side = 224, .classes = 1000};
  EXPECT_EQ(find_model("resnet18").make(large)->count_parameters(), 11'689'512);
  const ImageInput small{.channels = 3, .side = 32, .classes = 1000};
  EXPECT_EQ(find_model("resnet18").make(small)->get_parameter("conv1.weight").size(2), 3);
}

TEST(Optimizers, TakeAStepWithTheirDefaults) {
  for (const OptimizerRow& row : optimizers()) {
    Tensor p = ones({3});
    p.requires_grad_();
    const auto optimizer = row.make(
        {.decayed = {p}}, {.lr = row.lr, .momentum = 0.9, .weight_decay = row.weight_decay});
    (p * p).sum().backward();
    optimizer->step();
    EXPECT_LT(p.detach()[0].item<double>(), 1) << row.name;
    EXPECT_EQ(optimizer->lr(), row.lr) << row.name;
  }
}

TEST(Optimizers, DecayOnlyTheFirstParameters) {
  for (const OptimizerRow& row : optimizers()) {
    Tensor decayed = ones({1});
    Tensor other = ones({1});
    for (Tensor* const one : {&decayed, &other}) one->requires_grad_();
    const auto optimizer = row.make({.decayed = {decayed}, .others = {other}},
                                    {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
    ((decayed + other) * 0.0).sum().backward();
    optimizer->step();
    EXPECT_LT(decayed.item<double>(), 1) << row.name;
    EXPECT_EQ(other.item<double>(), 1) << row.name;
  }
}

// What a step multiplies the last one by; a captured CUDA graph reads it once.
TEST(Schedules, KeepTheMomentumThatIsGiven) {
  for (const ScheduleRow& row : schedules()) {
    for (const char* name : {"sgd", "adamw"}) {
      Tensor p = ones({1});
      p.requires_grad_();
      const auto optimizer =
          find_optimizer(name).make({.decayed = {p}}, {.lr = 1, .momentum = 0.75});
      RateSchedule schedule({.schedule = std::string(row.name), .lr = 1, .steps = 20}, *optimizer);
      const char* const option = name == std::string_view("sgd") ? "momentum" : "betas.0";
      const double wanted = *optimizer->find_option(option);
      for (int step = 0; step < 20; ++step) {
        EXPECT_EQ(*optimizer->find_option(option), wanted) << row.name << " in step " << step;
        p.sum().backward();
        optimizer->step();
        schedule.step();
      }
      EXPECT_EQ(wanted, name == std::string_view("sgd") ? 0.75 : 0.9) << row.name;
    }
  }
}

// The rates of a run of 20 steps.
std::vector<double> rates_of(SchedulePlan plan, std::int64_t resumed_after = -1) {
  plan.steps = 20;
  Tensor p = ones({1});
  p.requires_grad_();
  optim::SGD optimizer({p}, {.lr = plan.lr, .momentum = 0.9});
  RateSchedule schedule(plan, optimizer);
  std::vector<double> rates;
  for (std::int64_t step = 0; step < 20; ++step) {
    rates.push_back(optimizer.lr());
    p.sum().backward();
    optimizer.step();
    schedule.step();
    if (step != resumed_after) continue;
    // What another process does that goes on here.
    const nn::StateDict saved = schedule.state_dict();
    const nn::StateDict momentum = optimizer.state_dict();
    optim::SGD other({p}, {.lr = plan.lr, .momentum = 0.9});
    RateSchedule rest(plan, other);
    other.load_state_dict(momentum);
    rest.load_state_dict(saved);
    while (++step < 20) {
      rates.push_back(other.lr());
      other.step();
      rest.step();
    }
  }
  return rates;
}

TEST(Schedules, CosineFallsAfterItsWarmUp) {
  const auto rates = rates_of({.schedule = "cosine", .lr = 2, .warmup = 5});
  EXPECT_DOUBLE_EQ(rates[0], 0.02);
  for (std::size_t i = 1; i <= 5; ++i) EXPECT_GT(rates[i], rates[i - 1]);
  for (std::size_t i = 5; i < 20; ++i) {
    const double x = static_cast<double>(i - 5) / 15;
    EXPECT_NEAR(rates[i], 1 + std::cos(std::numbers::pi * x), 1e-12) << i;
  }
}

TEST(Schedules, CosineEndsAtTheSmallestRate) {
  const auto rates = rates_of({.schedule = "cosine", .lr = 2, .min_lr = 1});
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(rates[i], 1.5 + std::cos(std::numbers::pi * static_cast<double>(i) / 20) / 2,
                1e-12);
  }
}

TEST(Schedules, StepMultipliesEverySoManyEpochs) {
  const auto rates = rates_of({.schedule = "step", .lr = 1, .step_every = 10, .gamma = 0.5});
  for (std::size_t i = 0; i < 20; ++i) EXPECT_DOUBLE_EQ(rates[i], i < 10 ? 1 : 0.5) << i;
}

TEST(Schedules, OneCycleRisesToTheRateAndFalls) {
  const auto rates = rates_of({.schedule = "one-cycle", .lr = 1});
  EXPECT_NEAR(rates[0], 1.0 / 25, 1e-12);
  EXPECT_DOUBLE_EQ(rates[5], 1);
  EXPECT_LT(rates[19], 1e-3);
}

TEST(Schedules, GoOnFromTheirState) {
  for (const ScheduleRow& row : schedules()) {
    const SchedulePlan plan{.schedule = std::string(row.name),
                            .lr = 1,
                            .warmup = row.warms_up ? 5 : 0,
                            .step_every = 5};
    const auto whole = rates_of(plan);
    for (const std::int64_t after : {2, 4, 12}) {
      EXPECT_EQ(rates_of(plan, after), whole) << row.name << " after step " << after;
    }
  }
}

TEST(Augmentations, KeepOrMakeTheSide) {
  for (const AugmentRow& row : augmentations()) {
    Tensor image = ones({3, 16, 16}).to(DType::kU8);
    for (const data::Transform& change : row.make(row.resizes ? 12 : 16)) image = change(image);
    EXPECT_EQ(image.size(2), row.resizes ? 12 : 16) << row.name;
  }
}

}  // namespace
}  // namespace dl::examples
