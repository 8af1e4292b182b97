// Captured steps, and DDP over tensors of a GPU, with a CUDA back-end that needs none: what is
// captured, launched and given back, and what ranks decide. Nothing here shows what a GPU computes.
#include "nn/parallel/capture_step.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "collectives/device/device_group.h"
#include "collectives/device/staged_group.h"
#include "core/autograd/grad_mode.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module/module.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/amp/grad_scaler.h"
#include "nn/functional/functional.h"
#include "nn/models/book.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"
#include "nn/serialize/safetensors.h"
#include "tests/collectives/ranks.h"
#include "tests/nn/parallel/scripted_group.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/temp_dir.h"

namespace dl::cuda {
namespace {

using collectives::ProcessGroup;
using collectives::testing::run_ranks;
using collectives::testing::ScriptedGroup;
using collectives::testing::thrown_by;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

Device device_of(int index) {
  return {DeviceType::kCUDA, static_cast<std::int16_t>(index)};
}

Tensor batch(double value) {
  return full({4}, value, {.dtype = DType::kF32});
}

// One weight, trained by sum(x * w); `also` runs at the end of the step.
struct Trainer {
  explicit Trainer(Device device)
      : weight(full({4}, 1.0, {.dtype = DType::kF32, .device = device, .requires_grad = true})),
        optimizer({weight}, {.lr = 0.5, .momentum = 0.9}) {}

  std::vector<Tensor> step(std::span<const Tensor> inputs) {
    ++runs;
    seen = inputs[0];
    optimizer.zero_grad();
    const Tensor loss = sum(mul(inputs[0], weight));
    loss.backward();
    optimizer.step();
    if (also) also(loss);
    return {loss};
  }
  CapturedStep captured(CaptureStepOptions options = {}) {
    options.device = weight.device();
    options.optimizers = {&optimizer};
    return capture_step([this](std::span<const Tensor> in) { return step(in); },
                        std::move(options));
  }

  Tensor weight;
  optim::SGD optimizer;
  std::function<void(const Tensor& loss)> also;
  Tensor seen;
  int runs = 0;
};

class CaptureStep : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(runtime_.graphs.empty());
    EXPECT_EQ(runtime_.capture_state(current_stream(0).handle), CaptureState::kNone);
    EXPECT_FALSE(capturing());
  }
  std::int64_t stat(const std::string& name) const { return memory_stats(0).at(name); }

  test::FakeRuntime& runtime_ = test::use_fake_cuda();
  Trainer trainer_{device_of(0)};
};

TEST_F(CaptureStep, RunsOnceIsCapturedOnceAndLaunchedFromThenOn) {
  CapturedStep step = trainer_.captured();
  const std::size_t launches = runtime_.launches;
  step({batch(1)});
  EXPECT_EQ(trainer_.runs, 1);
  EXPECT_FALSE(step.is_captured());
  const Tensor loss = step({batch(2)})[0];
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(step.why_not(), "");
  for (const double value : {3.0, 4.0, 5.0}) {
    EXPECT_TRUE(step({batch(value)})[0].is_same(loss));
    EXPECT_EQ(trainer_.seen.cpu().at<float>({3}), static_cast<float>(value));
  }
  EXPECT_EQ(trainer_.runs, 2);
  EXPECT_EQ(step.launches(), 4);
  EXPECT_EQ(runtime_.launches - launches, 4U);
  EXPECT_FALSE(loss.requires_grad());
}

TEST_F(CaptureStep, TakesMoreStepsToWarmUpOrNoneAtAll) {
  CapturedStep patient = trainer_.captured({.warmup_steps = 3});
  for (int i = 0; i < 3; ++i) patient({batch(1)});
  EXPECT_FALSE(patient.is_captured());
  patient({batch(1)});
  EXPECT_TRUE(patient.is_captured());
  CapturedStep off = trainer_.captured({.enabled = false});
  for (int i = 0; i < 3; ++i) off({batch(1)});
  EXPECT_FALSE(off.is_captured());
  EXPECT_THAT(thrown_by([&] { trainer_.captured({.warmup_steps = 0}); }).text,
              HasSubstr("warmup_steps is 0"));
}

TEST_F(CaptureStep, OtherShapesRunAsTheyAreAndOtherCountsAreRefused) {
  CapturedStep step = trainer_.captured();
  step({batch(1)});
  step({batch(1)});
  const Tensor two_rows = ones({2, 4});
  ::testing::internal::CaptureStderr();
  step({two_rows});
  step({two_rows});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("input 0 is float32[2, 4], the captured one float32[4]"));
  EXPECT_EQ(said.find("capture_step", said.find("capture_step") + 1), std::string::npos);
  EXPECT_EQ(trainer_.runs, 4);
  step({batch(1)});
  EXPECT_EQ(trainer_.runs, 4);
  EXPECT_THAT(thrown_by([&] { step({batch(1), batch(1)}); }).text, HasSubstr("got 2 inputs"));
}

TEST_F(CaptureStep, AGraphsMemoryIsItsOwnWhileItLives) {
  constexpr std::int64_t kLarge = std::int64_t{30} << 20;
  const void* temporary = nullptr;
  trainer_.also = [&](const Tensor&) {
    temporary = empty({kLarge}, {.dtype = DType::kU8, .device = device_of(0)}).data_ptr();
  };
  {
    CapturedStep step = trainer_.captured();
    step({batch(1)});
    step({batch(1)});
    ASSERT_TRUE(step.is_captured());
    empty_cache();
    const std::int64_t reserved = stat("reserved_bytes.all.current");
    EXPECT_GE(reserved, kLarge);
    const Tensor other = empty({kLarge}, {.dtype = DType::kU8, .device = device_of(0)});
    EXPECT_NE(other.data_ptr(), temporary);
  }
  empty_cache();
  EXPECT_LT(stat("reserved_bytes.all.current"), kLarge);
}

// All threads begin on the default stream.
TEST_F(CaptureStep, DoesNotCaptureOtherThreadsWork) {
  int captures = 0;
  Tensor of_other;
  trainer_.also = [&](const Tensor&) {
    if (!capturing()) return;
    ++captures;
    EXPECT_EQ(runtime_.capture_state(current_stream(0).handle), CaptureState::kActive);
    EXPECT_EQ(runtime_.capture_state(default_stream(0).handle), CaptureState::kNone);
    std::thread([&] {
      of_other = batch(7).to(device_of(0));
      EXPECT_EQ(mul(of_other, of_other).cpu().at<float>({0}), 49);
    }).join();
  };
  const Stream before = current_stream(0);
  {
    CapturedStep step = trainer_.captured();
    for (int i = 0; i < 3; ++i) step({batch(1)});
    EXPECT_TRUE(step.is_captured());
    EXPECT_EQ(runtime_.launched_on, before.handle);
  }
  EXPECT_EQ(captures, 1);
  EXPECT_EQ(current_stream(0).handle, before.handle);
  EXPECT_EQ(of_other.cpu().at<float>({3}), 7);
}

// What it says on stderr, once, in three calls.
std::string said_of(Trainer& trainer, CapturedStep& step) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) step({batch(1)});
  EXPECT_FALSE(step.is_captured());
  EXPECT_EQ(trainer.runs, 4);  // one of them was the capture that failed
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("capture_step", said.find("capture_step") + 1), std::string::npos) << said;
  return said;
}

TEST_F(CaptureStep, AStepThatSynchronizesRunsEagerlyAndSaysSoOnce) {
  trainer_.step(std::vector<Tensor>{batch(1).to(device_of(0))});  // its state is made
  trainer_.runs = 0;
  const std::int64_t in_use = stat("allocation.all.current");
  trainer_.also = [](const Tensor& loss) { static_cast<void>(loss.item<float>()); };
  {
    CapturedStep step = trainer_.captured();
    EXPECT_THAT(said_of(trainer_, step), HasSubstr("steps are not captured"));
    EXPECT_THAT(step.why_not(), HasSubstr("cannot"));
    EXPECT_EQ(step.launches(), 0);
  }
  trainer_.seen = Tensor();
  EXPECT_LE(stat("allocation.all.current"), in_use);
}

// The generator advances by what each step draws, also if a graph draws it.
TEST_F(CaptureStep, AGeneratorAdvancesWithEachLaunch) {
  Generator generator(7);
  trainer_.also = [&](const Tensor& loss) {
    dl::detail::philox_dropout(loss, 0.5, generator);
    bernoulli(full({5}, 0.5, {.device = device_of(0)}), generator);
  };
  CapturedStep step = trainer_.captured();
  for (int i = 1; i < 5; ++i) {
    step({batch(1)});
    EXPECT_EQ(generator.philox_offset(), static_cast<std::uint64_t>(i) * (4 + 12));
  }
  EXPECT_TRUE(step.is_captured()) << step.why_not();
}

TEST_F(CaptureStep, AnotherDeviceIsNotDrawnIn) {
  const Tensor there = batch(2).to(device_of(1));
  trainer_.also = [&](const Tensor&) {
    there.to(device_of(0));
    EXPECT_EQ(runtime_.capture_state(default_stream(1).handle), CaptureState::kNone);
  };
  CapturedStep step = trainer_.captured();
  EXPECT_THAT(said_of(trainer_, step), HasSubstr("a copy between two devices"));
}

TEST_F(CaptureStep, ACaptureThatBreaksIsGivenUp) {
  runtime_.capture_error = "left work behind";
  CapturedStep step = trainer_.captured();
  EXPECT_THAT(said_of(trainer_, step), HasSubstr("the capture broke"));
  runtime_.capture_error.clear();
}

TEST_F(CaptureStep, TheCpuHasNoGraphs) {
  Trainer here{Device{}};
  CapturedStep step = here.captured();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) step({batch(1)});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the device is cpu"));
  EXPECT_EQ(here.runs, 3);
  EXPECT_EQ(here.weight.at<float>({0}), 1 - 0.5F * (1 + 1.9F + 2.71F));
}

TEST_F(CaptureStep, AnOptimizersFirstStepIsNotCaptured) {
  trainer_.also = nullptr;
  int calls = 0;
  CapturedStep step = capture_step(
      [&](std::span<const Tensor> in) -> std::vector<Tensor> {
        if (++calls == 1) return {in[0]};
        return trainer_.step(in);
      },
      {.device = device_of(0)});
  ::testing::internal::CaptureStderr();
  step({batch(1)});
  step({batch(1)});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("first step"));
}

TEST_F(CaptureStep, OneRankThatCannotKeepsAllFromIt) {
  std::atomic<int> through{0};
  run_ranks(2, [&](ProcessGroup& group) {
    const DeviceGuard own(group.rank());
    Trainer trainer(device_of(group.rank()));
    if (group.rank() == 1) {
      trainer.also = [](const Tensor& loss) { static_cast<void>(loss.item<float>()); };
    }
    CapturedStep step = trainer.captured({.group = Ref<ProcessGroup>(&group)});
    for (int i = 0; i < 3; ++i) step({batch(1)});
    EXPECT_FALSE(step.is_captured());
    EXPECT_THAT(step.why_not(), StartsWith("rank 1: "));
    EXPECT_EQ(trainer.runs, 4);
    trainer.also = nullptr;
    CapturedStep good = trainer.captured({.group = Ref<ProcessGroup>(&group)});
    for (int i = 0; i < 3; ++i) good({batch(1)});
    EXPECT_TRUE(good.is_captured());
    // No rank is in a call any more when one ends the group.
    ++through;
    EXPECT_TRUE(tests::eventually([&] { return through == 2; }));
    if (group.rank() == 0) group.abort("enough");
    EXPECT_TRUE(tests::eventually([&] { return group.error() != nullptr; }));
    EXPECT_THAT(thrown_by([&] { good({batch(1)}); }).text, HasSubstr("enough"));
  });
}

// Over DDP, alone with a group whose other ranks send the same.
class CaptureDdp : public CaptureStep {
 protected:
  std::vector<Tensor> step(std::span<const Tensor> in) {
    optimizer_.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(ddp_(in[0]), in[1]);
    scaler_.scale(loss).backward();
    scaler_.step(optimizer_);
    if (also_) also_(loss);
    scaler_.update();
    return {loss};
  }
  std::vector<Tensor> sample() const { return {ones({4, 50}), zeros({4}, {.dtype = DType::kI64})}; }

  Ref<ScriptedGroup> group_ = make_ref<ScriptedGroup>();
  nn::Sequential model_ = [] {
    nn::Sequential model = nn::models::mlp();
    model.to(device_of(0));
    return model;
  }();
  nn::parallel::DistributedDataParallel ddp_{model_, group_};
  optim::SGD optimizer_{model_.parameters(), {.lr = 0.1, .momentum = 0.9}};
  amp::GradScaler scaler_;
  std::function<void(const Tensor&)> also_;
};

TEST_F(CaptureDdp, ReducesBetweenBackwardAndTheOptimizer) {
  const OwnedStream own(0);
  {
    const StreamGuard guard(own.get());
    const Tensor x = sample()[0].to(device_of(0)), y = sample()[1].to(device_of(0));
    step(std::vector<Tensor>{x, y});
  }
  ASSERT_THAT(group_->all_reduces, SizeIs(1));
  EXPECT_EQ(group_->all_reduces[0].stream.handle, own.get().handle);
  EXPECT_EQ(group_->all_reduces[0].stream.device, device_of(0));
  ASSERT_TRUE(group_->all_reduces[0].work->waited_first.has_value());
  EXPECT_EQ(group_->all_reduces[0].work->waited_first->handle, own.get().handle);
  // Timed by the device, of which the fake one says that everything takes a millisecond.
  EXPECT_EQ(ddp_.overlap().steps, 1);
  EXPECT_EQ(ddp_.overlap().communication, std::chrono::milliseconds(1));
  EXPECT_EQ(ddp_.overlap().exposed, std::chrono::milliseconds(1));
}

TEST_F(CaptureDdp, IsCapturedWithItsReductions) {
  CapturedStep captured = capture_step([this](std::span<const Tensor> in) { return step(in); },
                                       {.device = device_of(0), .optimizers = {&optimizer_}});
  for (int i = 0; i < 5; ++i) captured(sample());
  EXPECT_TRUE(captured.is_captured()) << captured.why_not();
  EXPECT_THAT(group_->all_reduces, SizeIs(2));  // the warm-up's and the capture's
  EXPECT_EQ(captured.launches(), 4);
}

TEST_F(CaptureDdp, GoesOnAfterACaptureThatFailed) {
  // In the middle of a pass, and in the middle of a scaler's step.
  for (const bool in_backward : {true, false}) {
    int failures = 0;
    const auto fail = [&failures] {
      if (!capturing()) return;
      ++failures;
      throw_error(ErrorKind::kInvalidArgument, "not in a capture");
    };
    group_->at_wait = in_backward ? std::function<void()>(fail) : nullptr;
    also_ =
        in_backward ? nullptr : std::function<void(const Tensor&)>([&](const Tensor&) { fail(); });
    CapturedStep captured = capture_step([this](std::span<const Tensor> in) { return step(in); },
                                         {.device = device_of(0), .optimizers = {&optimizer_}});
    for (int i = 0; i < 4; ++i) captured(sample());
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(captured.why_not(), "not in a capture");
  }
  EXPECT_THAT(group_->aborts, IsEmpty());
}

TEST(DdpOnADevice, TrainsThroughTheHostAsOnTheCpu) {
  test::use_fake_cuda();
  const auto train = [](const Ref<ProcessGroup>& group, Device device) {
    nn::Sequential model = nn::models::mlp();
    {
      const NoGradGuard no_grad;
      for (const Tensor& p : model.parameters()) Tensor(p).fill_(0.01 * (group->rank() + 1));
    }
    model.to(device);
    nn::parallel::DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int i = 0; i < 3; ++i) {
      const Tensor x = full({4, 50}, 0.1 * (group->rank() + i + 1), {.dtype = DType::kF32});
      const Tensor y = full({4}, group->rank(), {.dtype = DType::kI64});
      optimizer.zero_grad();
      nn::functional::cross_entropy(ddp(x.to(device)), y.to(device)).backward();
      optimizer.step();
    }
    std::vector<float> result;
    for (const Tensor& p : model.parameters()) {
      const Tensor here = p.detach().cpu();
      result.insert(result.end(), here.data<float>(), here.data<float>() + here.numel());
    }
    return result;
  };
  run_ranks(2, [&](ProcessGroup& host) {
    const DeviceGuard own(host.rank());
    const Ref<ProcessGroup> group = collectives::make_device_group(
        Ref<ProcessGroup>(&host), {},
        [](const Ref<ProcessGroup>& on, int, const collectives::DeviceGroupOptions&) {
          return collectives::make_staged_group(on, runtime());
        });
    const std::vector<float> on_cpu = train(group, Device{});
    EXPECT_EQ(train(group, device_of(host.rank())), on_cpu);
  });
}

// The streams continued after a collective that failed, without a wait since then.
TEST(DdpOnADevice, ParametersOfAFailedGroupMustBeReloaded) {
  test::use_fake_cuda();
  const tests::TempDir dir;
  const std::string file = dir.path() + "/model.safetensors";
  nn::Sequential model = nn::models::mlp();
  nn::StateDict good;
  for (const nn::NamedTensor& p : model.state_dict()) good.push_back({p.name, p.tensor.clone()});
  model.to(device_of(0));
  const Tensor x = ones({4, 50}).to(device_of(0));
  const auto text_of = [](const std::function<void()>& call) { return thrown_by(call).text; };
  {
    const auto group = make_ref<ScriptedGroup>();
    nn::parallel::DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    const Tensor loss = sum(ddp(x));
    loss.backward();
    optimizer.step();
    EXPECT_TRUE(std::isfinite(loss.item<float>()));
    group->behind->set(std::make_exception_ptr(Error(ErrorKind::kTimeout, "all_reduce #1: late")));
    EXPECT_EQ(text_of([&] { static_cast<void>(loss.item<float>()); }), "all_reduce #1: late");
    EXPECT_EQ(text_of([&] { optimizer.step(); }), "all_reduce #1: late");
    EXPECT_EQ(text_of([&] { ddp(x); }), "all_reduce #1: late");
    EXPECT_EQ(text_of([] { synchronize(0); }), "all_reduce #1: late");
    EXPECT_TRUE(ones({2}, {.device = device_of(1)}).cpu().defined());
  }
  // Neither the group's end nor another group makes it good.
  EXPECT_EQ(text_of([&] { nn::save_safetensors(file, model.state_dict()); }),
            "all_reduce #1: late");
  EXPECT_THAT(text_of([&] { nn::load_safetensors(file); }), HasSubstr("No such file"));
  {
    nn::parallel::DistributedDataParallel ddp(model, make_ref<ScriptedGroup>());
    EXPECT_EQ(text_of([&] { ddp(x); }), "all_reduce #1: late");
  }
  EXPECT_EQ(text_of([&] { model.to(Device{}); }), "all_reduce #1: late");

  model.load_state_dict(good);
  nn::parallel::DistributedDataParallel ddp(model, make_ref<ScriptedGroup>());
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  sum(ddp(x)).backward();
  optimizer.step();
  nn::save_safetensors(file, model.state_dict());
  EXPECT_EQ(nn::load_safetensors(file).tensors.size(), good.size());
}

}  // namespace
}  // namespace dl::cuda
