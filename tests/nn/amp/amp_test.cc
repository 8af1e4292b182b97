// Mixed precision on the CPU: what the device has to do with it is tests/core/cuda's.
#include <gtest/gtest.h>

#include <limits>

#include "core/autocast/autocast.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/error.h"
#include "core/base/first_error.h"
#include "core/random/tensor_random.h"
#include "nn/amp/grad_scaler.h"
#include "nn/functional/functional.h"
#include "nn/models/book.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/support.h"

namespace dl::amp {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct OneWeight {
  Tensor w = ones({2}, {.requires_grad = true});
  optim::SGD sgd{{w}, {.lr = 1.0}};

  void give(float first, float second) const { w.set_grad(tensor({first, second})); }
  void step(GradScaler& scaler) {
    scaler.step(sgd);
    scaler.update();
  }
};

GradScaler started(GradScalerOptions options) {
  GradScaler scaler(options);
  scaler.scale(ones({}));
  return scaler;
}

TEST(GradScaler, ScalesTheLossAndUnscalesTheGradients) {
  OneWeight model;
  GradScaler scaler({.init_scale = 4});
  EXPECT_EQ(scaler.scale(tensor(1.5F)).item<float>(), 6.0F);
  model.give(8, -2);
  scaler.step(model.sgd);
  EXPECT_EQ(values<float>(model.w.grad()), (std::vector<float>{2, -0.5}));
  EXPECT_EQ(values<float>(model.w), (std::vector<float>{-1, 1.5}));
}

TEST(GradScaler, AStepThatThrewCanBeTakenAgain) {
  OneWeight model;
  GradScaler scaler = started({.init_scale = 4});
  model.give(8, -2);
  const auto error = make_ref<FirstError>();
  error->set(std::make_exception_ptr(Error(ErrorKind::kPeerFailed, "rank 1 is gone")));
  set_grad_error(model.w, error);
  EXPECT_ERROR(scaler.step(model.sgd), kPeerFailed, "rank 1 is gone");
  clear_grad_error(model.w);
  scaler.step(model.sgd);
  EXPECT_EQ(values<float>(model.w), (std::vector<float>{-1, 1.5}));
}

// What torch.amp.GradScaler(init_scale=8, growth_interval=2) does with steps that are good (+) and
// bad (-): the scale after each.
TEST(GradScaler, GrowsAndBacksOffAsPyTorchs) {
  OneWeight model;
  GradScaler scaler = started({.init_scale = 8, .growth_interval = 2});
  const std::string steps = "+++-+-++++--";
  const std::vector<double> wanted = {8, 16, 16, 8, 8, 4, 4, 8, 8, 16, 8, 4};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool bad = steps[i] == '-';
    const auto before = values<float>(model.w);
    model.give(bad ? (i % 2 == 0 ? kInf : std::numeric_limits<float>::quiet_NaN()) : 1, 1);
    model.step(scaler);
    EXPECT_EQ(scaler.get_scale(), wanted[i]) << i;
    EXPECT_EQ(values<float>(model.w) == before, bad) << i;
  }
}

TEST(GradScaler, DoesNotGrowToInfinity) {
  OneWeight model;
  GradScaler scaler = started({.init_scale = 0x1p127, .growth_interval = 1});
  model.give(1, 1);
  model.step(scaler);
  EXPECT_EQ(scaler.get_scale(), 0x1p127);
}

TEST(GradScaler, OneBadOptimizerBacksOffForAll) {
  OneWeight good;
  OneWeight bad;
  GradScaler scaler = started({.init_scale = 2});
  good.give(2, 2);
  bad.give(kInf, 0);
  scaler.step(good.sgd);
  scaler.step(bad.sgd);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(values<float>(good.w), (std::vector<float>{0, 0}));
  EXPECT_EQ(values<float>(bad.w), (std::vector<float>{1, 1}));
}

// A bad step does not count for Adam's bias corrections either.
TEST(GradScaler, ABadStepDoesNotCount) {
  const Tensor w = ones({1}, {.requires_grad = true});
  optim::Adam adam({w});
  GradScaler scaler = started({.init_scale = 1});
  for (const float gradient : {1.0F, kInf, 1.0F}) {
    w.set_grad(tensor({gradient}));
    scaler.step(adam);
    scaler.update();
  }
  for (const nn::NamedTensor& entry : adam.state_dict()) {
    if (entry.name == "state.0.step") {
      EXPECT_EQ(entry.tensor.item<float>(), 2.0F);
    }
  }
}

TEST(GradScaler, ItsStateContinues) {
  OneWeight model;
  GradScaler scaler = started({.init_scale = 8, .growth_interval = 2});
  model.give(1, 1);
  model.step(scaler);
  const nn::StateDict state = scaler.state_dict();
  std::vector<std::string> names;
  for (const nn::NamedTensor& entry : state) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"scale", "growth_factor", "backoff_factor",
                                             "growth_interval", "_growth_tracker"}));
  for (const bool used_before : {false, true}) {
    GradScaler other;
    if (used_before) other.scale(ones({}));
    other.load_state_dict(state);
    EXPECT_EQ(other.get_scale(), 8);
    EXPECT_EQ(other.get_growth_interval(), 2);
    other.scale(ones({}));
    model.give(1, 1);
    model.step(other);
    EXPECT_EQ(other.get_scale(), 16);
  }
  EXPECT_TRUE(GradScaler({.enabled = false}).state_dict().empty());
}

TEST(GradScaler, DisabledItOnlySteps) {
  OneWeight model;
  GradScaler scaler({.enabled = false});
  const Tensor loss = tensor(3.0F);
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  model.give(kInf, 1);
  model.step(scaler);
  EXPECT_EQ(values<float>(model.w), (std::vector<float>{-kInf, 0}));
  EXPECT_EQ(scaler.get_scale(), 1);
}

TEST(GradScalerErrors, SayWhatWasDoneOutOfTurn) {
  OneWeight model;
  GradScaler scaler;
  EXPECT_ERROR(scaler.step(model.sgd), kInvalidArgument,
               "GradScaler::unscale_: nothing was scaled yet; call scale(loss).backward() before "
               "it");
  scaler.scale(ones({}));
  EXPECT_ERROR(scaler.step(model.sgd), kInvalidArgument,
               "GradScaler: no parameter of the optimizer has a gradient; was backward() called?");
  EXPECT_ERROR(scaler.update(), kInvalidArgument,
               "GradScaler::update: nothing was stepped or unscaled since the last update()");
  model.give(1, 1);
  scaler.unscale_(model.sgd);
  EXPECT_ERROR(scaler.unscale_(model.sgd), kInvalidArgument,
               "GradScaler::unscale_: called a second time, or after step(), since the last "
               "update()");
  scaler.step(model.sgd);
  EXPECT_ERROR(scaler.step(model.sgd), kInvalidArgument,
               "GradScaler::step: called a second time for this optimizer since the last update()");
  EXPECT_ERROR(GradScaler({.growth_factor = 1}), kInvalidArgument,
               "GradScaler: growth_factor is 1, wanted more than 1");
}

// Half-width training of a small network reaches the loss that f32 training reaches.
TEST(MixedPrecision, LearnsWhatFloat32Learns) {
  const auto train = [](bool mixed, DType dtype) {
    manual_seed(3);
    nn::Sequential model = nn::models::mlp();
    const Tensor x = randn({16, 50});
    const Tensor y = randint(0, 3, {16});
    optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    GradScaler scaler({.init_scale = 1024, .enabled = mixed});
    double loss_now = 0;
    for (int i = 0; i < 20; ++i) {
      sgd.zero_grad();
      Tensor loss;
      {
        const autocast cast(DeviceType::kCPU, {.dtype = dtype, .enabled = mixed});
        loss = nn::functional::cross_entropy(model(x), y);
      }
      scaler.scale(loss).backward();
      scaler.step(sgd);
      scaler.update();
      loss_now = loss.item<double>();
    }
    return loss_now;
  };
  const double wanted = train(false, DType::kBF16);
  EXPECT_LT(wanted, 0.3);  // it began with ln 3
  EXPECT_NEAR(train(true, DType::kBF16), wanted, 0.05);
  EXPECT_NEAR(train(true, DType::kF16), wanted, 0.01);
}

}  // namespace
}  // namespace dl::amp
