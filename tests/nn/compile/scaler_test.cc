// A GradScaler in a compiled step does what it does without a tape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "core/autocast/autocast.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/error.h"
#include "core/base/first_error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/utils/clip_grad.h"
#include "tests/nn/compile/same_bits.h"

namespace dl {
namespace {

using testing::HasSubstr;

struct Scaled {
  std::optional<DType> half{};
  bool adam = false;
  bool clip = false;    // the first optimizer's gradients
  bool unscale = clip;  // before the step
  amp::GradScalerOptions scaler{.init_scale = 1024, .growth_interval = 3};
  CompileOptions compile{.whole = true};
};

// Two layers with an optimizer each, and one scaler.
class ScaledTraining {
 public:
  ScaledTraining(const Scaled& how, bool compiled)
      : how_(how), scaler(how.scaler), step_(compile(body(), options(how, compiled))) {
    for (nn::Linear* layer : {&first, &second}) {
      if (how.adam) {
        optimizers.push_back(std::make_unique<optim::AdamW>(layer->parameters()));
      } else {
        optimizers.push_back(std::make_unique<optim::SGD>(
            layer->parameters(), optim::SGDOptions{.lr = 0.05, .momentum = 0.9}));
      }
    }
  }

  void call(const Tensor& x) { losses_.push_back(step_(x).detach().clone()); }
  void call_eagerly(const Tensor& x) { losses_.push_back(body()(x).detach().clone()); }
  // Notes what the calls have left.
  void note() {
    std::vector<Tensor> now = std::move(losses_);
    losses_.clear();
    for (const auto& optimizer : optimizers) {
      for (const Tensor& p : optimizer->parameters()) now.push_back(p.detach().clone());
      for (const nn::NamedTensor& entry : optimizer->state_dict()) {
        now.push_back(entry.tensor.clone());
      }
    }
    for (const nn::NamedTensor& entry : scaler.state_dict()) now.push_back(entry.tensor);
    traces.push_back(std::move(now));
  }
  CompileSummary summary() const { return step_.summary(); }

 private:
  using Body = std::function<Tensor(const Tensor&)>;

  static CompileOptions options(const Scaled& how, bool compiled) {
    CompileOptions options = how.compile;
    options.enabled = compiled;
    return options;
  }
  Body body() {
    return [this](const Tensor& x) {
      for (const auto& optimizer : optimizers) optimizer->zero_grad();
      Tensor loss;
      {
        std::optional<autocast> cast;
        if (how_.half) cast.emplace(DeviceType::kCPU, AutocastOptions{.dtype = how_.half});
        loss = nn::functional::cross_entropy(second(relu(first(x))),
                                             zeros({x.size(0)}, {.dtype = DType::kI64}));
      }
      scaler.scale(loss).backward();
      if (how_.unscale) scaler.unscale_(*optimizers[0]);
      if (how_.clip) nn::utils::clip_grad_norm_(optimizers[0]->parameters(), 0.1);
      for (const auto& optimizer : optimizers) scaler.step(*optimizer);
      scaler.update();
      return loss;
    };
  }

  Scaled how_;

 public:
  nn::Linear first = (manual_seed(5), nn::Linear(8, 16));
  nn::Linear second{16, 4};
  amp::GradScaler scaler;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
  Traces traces;

 private:
  std::vector<Tensor> losses_;
  Compiled<Body> step_;
};

// `train` does the same with a function that is compiled and one that is not.
CompileSummary expect_same_training(const Scaled& how,
                                    const std::function<void(ScaledTraining&)>& train) {
  ScaledTraining eager(how, false);
  ScaledTraining compiled(how, true);
  for (ScaledTraining* each : {&eager, &compiled}) {
    manual_seed(9);
    train(*each);
  }
  expect_same_traces(eager.traces, compiled.traces);
  return compiled.summary();
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Bad steps while it records, while it checks, and in replays.
void train_with_infinities(ScaledTraining& here) {
  for (int i = 0; i < 30; ++i) {
    Tensor x = randn({4, 8});
    if (i == 2 || i == 9 || i == 10 || i == 21) x[1][i % 8].fill_(i == 9 ? -NAN : kInfinity);
    here.call(x);
    here.note();
  }
}

TEST(CompiledGradScaler, HasTheFunctionsBits) {
  for (const std::optional<DType> half :
       {std::optional<DType>(), std::optional(DType::kF16), std::optional(DType::kBF16)}) {
    for (const bool adam : {false, true}) {
      for (const int checks : {0, 3}) {
        SCOPED_TRACE(testing::Message() << (half ? name_of(*half) : "float32") << ", adam " << adam
                                        << ", checks " << checks);
        const CompileSummary summary = expect_same_training(
            {.half = half, .adam = adam, .compile = {.whole = true, .checks = checks}},
            train_with_infinities);
        EXPECT_EQ(summary.replays, 30 - 1 - checks) << summary.str();
      }
    }
  }
}

TEST(CompiledGradScaler, SkipsAndBacksOffInReplays) {
  ScaledTraining here({}, true);
  for (int i = 0; i < 6; ++i) here.call(ones({4, 8}));  // of which it grows after each third
  EXPECT_EQ(here.scaler.get_scale(), 4096);
  const Tensor before = here.first.weight.detach().clone();
  here.call(full({4, 8}, kInfinity));
  EXPECT_EQ(here.scaler.get_scale(), 2048);
  EXPECT_TRUE(same_bits(before, here.first.weight));
  for (int i = 0; i < 3; ++i) here.call(ones({4, 8}));
  EXPECT_EQ(here.scaler.get_scale(), 4096);
  EXPECT_FALSE(same_bits(before, here.first.weight));
  EXPECT_EQ(here.summary().replays, 6);
}

// Scales that overflow float16's gradients at first.
TEST(CompiledGradScaler, FindsAScaleForFloat16) {
  for (const bool adam : {false, true}) {
    expect_same_training({.half = DType::kF16,
                          .adam = adam,
                          .scaler = {.init_scale = 0x1p40, .backoff_factor = 0.125}},
                         train_with_infinities);
  }
}

TEST(CompiledGradScaler, ClipsUnscaledGradients) {
  for (const bool clip : {false, true}) {
    for (const std::optional<DType> half : {std::optional<DType>(), std::optional(DType::kF16)}) {
      const CompileSummary summary = expect_same_training(
          {.half = half, .clip = clip, .unscale = true}, train_with_infinities);
      EXPECT_GE(summary.replays, 26);
    }
  }
}

// Between replays the program loads its state, sets it, uses it without a tape, and with another.
TEST(CompiledGradScaler, SharesItsStateWithTheProgram) {
  const CompileSummary summary = expect_same_training({.adam = true}, [](ScaledTraining& here) {
    nn::StateDict saved;
    for (int i = 0; i < 40; ++i) {
      const Tensor x = randn({i % 3 == 2 ? 3 : 4, 8});
      if (i % 11 == 7) Tensor(x).fill_(kInfinity);
      if (i % 7 == 6) {
        here.call_eagerly(x);
      } else {
        here.call(x);
      }
      if (i == 13) saved = here.scaler.state_dict();
      if (i == 19) here.scaler.update(64.0);
      if (i == 27) here.scaler.load_state_dict(saved);
      if (i == 31) here.scaler = amp::GradScaler({.init_scale = 2, .growth_interval = 2});
      if (i == 35) here.scaler = amp::GradScaler({.enabled = false});
      here.note();
    }
  });
  EXPECT_GE(summary.replays, 12) << summary.str();
}

// A skipped step leaves the weights' casts valid, which the guard keeps.
TEST(CompiledGradScaler, WorksWithAutocastAroundTheCalls) {
  for (const int checks : {0, 3}) {
    const CompileSummary summary =
        expect_same_training({.compile = {.whole = true, .checks = checks}}, [](auto& here) {
          const autocast cast(DeviceType::kCPU, {.dtype = DType::kF16});
          here.call_eagerly(full({4, 8}, kInfinity));
          for (int i = 0; i < 20; ++i) {
            here.call(i % 6 == 1 ? full({4, 8}, kInfinity) : randn({4, 8}));
            if (i % 7 == 6) here.call_eagerly(randn({4, 8}));
            here.note();
          }
        });
    EXPECT_EQ(summary.replays, 20 - 1 - checks) << summary.str();
  }
}

// The step of one optimizer fails after gradients were unscaled; the caller takes it again.
TEST(CompiledGradScaler, AReplayThatFailedLeavesWhatACallLeaves) {
  const CompileSummary summary = expect_same_training({}, [](ScaledTraining& here) {
    for (int i = 0; i < 24; ++i) {
      const Tensor x = randn({4, 8});
      if (i % 6 != 5) {
        here.call(x);
      } else {
        const auto error = make_ref<FirstError>();
        error->set(std::make_exception_ptr(Error(ErrorKind::kPeerFailed, "rank 1 is gone")));
        set_grad_error(here.second.weight, error);
        EXPECT_THROW(here.call(x), Error);
        clear_grad_error(here.second.weight);
        if (i == 11) {
          here.scaler.step(*here.optimizers[1]);
        } else if (i == 17) {  // out of turn, since there was no update()
          EXPECT_THROW(here.call(x), Error);
        }
        here.scaler.update();
      }
      here.note();
    }
  });
  EXPECT_GE(summary.replays, 24 - 4 - 4);
}

TEST(CompiledGradScaler, NamesWhatCannotBeRepeated) {
  const Tensor weight = ones({2}, {.requires_grad = true});
  const Tensor other = ones({2}, {.requires_grad = true});
  optim::SGD a({weight}, {.lr = 0.1});
  optim::SGD b({other}, {.lr = 0.1});
  amp::GradScaler scaler;
  const auto refusal = [&](const std::function<void(int)>& end) {
    int calls = 0;
    auto step = compile(
        [&](const Tensor& x) {
          a.zero_grad();
          b.zero_grad();
          scaler.scale(sum(x * weight * other)).backward();
          end(++calls);
        },
        {.whole = true});
    try {
      for (int i = 0; i < 8; ++i) step(ones({2}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal([&](int) { scaler.step(a), scaler.update(), scaler.get_scale(); }),
              HasSubstr("a GradScaler's scale is read, after step "));
  EXPECT_THAT(refusal([&](int) { scaler.step(a), scaler.update(), scaler.state_dict(); }),
              HasSubstr("a GradScaler's scale is read, after step "));
  EXPECT_THAT(refusal([&](int call) { scaler.step(call % 2 == 0 ? a : b), scaler.update(); }),
              testing::AllOf(HasSubstr("does not do the same"),
                             HasSubstr("object of scaler_step differs")));
  EXPECT_THAT(refusal([&](int call) { scaler.step(a), scaler.update(4.0 * call); }),
              HasSubstr("scaler_update(20) was scaler_update(16)"));
  EXPECT_EQ(refusal([&](int) { scaler.step(a), scaler.update(4.0); }), "");
}

}  // namespace
}  // namespace dl
