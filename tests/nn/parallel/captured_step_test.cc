// Compiled steps on a GPU, and DDP over its tensors, with a CUDA back-end that needs none: what is
// captured, launched and given back, and what ranks decide. Nothing here shows what a GPU computes.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "collectives/device/device_group.h"
#include "collectives/device/staged_group.h"
#include "core/autograd/grad_mode.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/graph.h"
#include "core/device/cuda/module/module.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/models/book.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/optim/lr_scheduler/schedules.h"
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

using Step = Compiled<std::function<Tensor(const Tensor&)>>;

// One weight, trained by sum(x * w); `also` runs at the end of the step.
struct Trainer {
  explicit Trainer(Device device)
      : weight(full({4}, 1.0, {.dtype = DType::kF32, .device = device, .requires_grad = true})),
        optimizer(std::make_unique<optim::SGD>(std::vector<Tensor>{weight},
                                               optim::SGDOptions{.lr = 0.5, .momentum = 0.9})) {}

  Tensor step(const Tensor& input) {
    ++runs;
    seen = input;
    optimizer->zero_grad();
    const Tensor loss = sum(mul(input, weight));
    loss.backward();
    optimizer->step();
    if (also) also(loss);
    return loss;
  }
  // Its inputs are on the host.
  Step captured(CompileOptions options = {}) {
    options.device = weight.device();
    return {[this](const Tensor& input) { return step(input); }, std::move(options)};
  }

  Tensor weight;
  std::unique_ptr<optim::SGD> optimizer;
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

bool is_captured(const Step& step) {
  return step.summary().graphs > 0;
}

TEST_F(CaptureStep, RunsOnceIsCapturedOnceAndLaunchedFromThenOn) {
  Step step = trainer_.captured();
  const std::size_t launches = runtime_.launches;
  step(batch(1));
  EXPECT_EQ(trainer_.runs, 1);
  EXPECT_FALSE(is_captured(step));
  const Tensor loss = step(batch(2));
  EXPECT_TRUE(is_captured(step));
  for (const double value : {3.0, 4.0, 5.0}) {
    EXPECT_NE(step(batch(value)).data_ptr(), loss.data_ptr());
    EXPECT_EQ(trainer_.seen.cpu().at<float>({3}), static_cast<float>(value));
  }
  EXPECT_EQ(trainer_.runs, 2);
  EXPECT_EQ(step.summary().str(), "1 CUDA graph; 4 replays, 1 run");
  EXPECT_EQ(runtime_.launches - launches, 4U);
  EXPECT_FALSE(loss.requires_grad());
}

TEST_F(CaptureStep, TakesInputsFromItsDevice) {
  Step step{[&](const Tensor& input) { return trainer_.step(input); }, {}};
  for (int i = 0; i < 3; ++i) step(batch(1).to(device_of(0)));
  EXPECT_TRUE(is_captured(step));
  EXPECT_EQ(trainer_.runs, 2);
}

TEST_F(CaptureStep, TakesMoreStepsToWarmUpOrNoneAtAll) {
  Step patient = trainer_.captured({.warmup_steps = 3});
  for (int i = 0; i < 3; ++i) patient(batch(1));
  EXPECT_FALSE(is_captured(patient));
  patient(batch(1));
  EXPECT_TRUE(is_captured(patient));
  for (const CompileOptions& options :
       {CompileOptions{.enabled = false}, CompileOptions{.backend = "eager"}}) {
    Step off = trainer_.captured(options);
    for (int i = 0; i < 3; ++i) off(batch(1));
    EXPECT_FALSE(is_captured(off));
  }
  EXPECT_THAT(thrown_by([&] { trainer_.captured({.warmup_steps = 0}); }).text,
              HasSubstr("warmup_steps is 0"));
}

TEST_F(CaptureStep, CapturesEachFormOfInputs) {
  Step step = trainer_.captured({.most_tapes = 2});
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    for (const Shape& shape : {Shape{4}, Shape{2, 4}, Shape{3, 4}}) step(ones(shape));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("there are 2 graphs for inputs of other forms"));
  EXPECT_EQ(step.summary().graphs, 2U);
  EXPECT_EQ(step.summary().replays, 2 * 3);
  EXPECT_EQ(trainer_.runs, 2 * 2 + 4);
}

TEST_F(CaptureStep, IsCapturedAgainAfterTheModelWasRearranged) {
  nn::Sequential model = nn::models::mlp();
  Step step = trainer_.captured({.whole = true});
  for (int i = 0; i < 3; ++i) step(batch(1));
  model.eval();
  for (int i = 0; i < 3; ++i) step(batch(1));
  EXPECT_EQ(trainer_.runs, 3);
  EXPECT_EQ(step.summary().graphs, 1U);
}

TEST_F(CaptureStep, AGraphsMemoryIsItsOwnWhileItLives) {
  constexpr std::int64_t kLarge = std::int64_t{30} << 20;
  const void* temporary = nullptr;
  trainer_.also = [&](const Tensor&) {
    temporary = empty({kLarge}, {.dtype = DType::kU8, .device = device_of(0)}).data_ptr();
  };
  {
    Step step = trainer_.captured();
    step(batch(1));
    step(batch(1));
    ASSERT_TRUE(is_captured(step));
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
    Step step = trainer_.captured();
    for (int i = 0; i < 3; ++i) step(batch(1));
    EXPECT_TRUE(is_captured(step));
    EXPECT_EQ(runtime_.launched_on, before.handle);
  }
  EXPECT_EQ(captures, 1);
  EXPECT_EQ(current_stream(0).handle, before.handle);
  EXPECT_EQ(of_other.cpu().at<float>({3}), 7);
}

// What it says on stderr, once, in three calls.
std::string said_of(Trainer& trainer, Step& step) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) step(batch(1));
  EXPECT_FALSE(is_captured(step));
  EXPECT_EQ(trainer.runs, 4);  // one of them was the capture that failed
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("compile:", said.find("compile:") + 1), std::string::npos) << said;
  return said;
}

TEST_F(CaptureStep, AStepThatSynchronizesRunsEagerlyAndSaysSoOnce) {
  trainer_.step(batch(1).to(device_of(0)));  // its state is made
  trainer_.runs = 0;
  const std::int64_t in_use = stat("allocation.all.current");
  trainer_.also = [](const Tensor& loss) { static_cast<void>(loss.item<float>()); };
  {
    Step step = trainer_.captured();
    EXPECT_THAT(said_of(trainer_, step), HasSubstr("compile: all calls run the function"));
    EXPECT_THAT(step.summary().why_not, HasSubstr("cannot"));
    EXPECT_EQ(step.summary().replays, 0);
  }
  trainer_.seen = Tensor();
  EXPECT_LE(stat("allocation.all.current"), in_use);
}

TEST_F(CaptureStep, ASchedulerInAStepIsRefusedByName) {
  optim::ExponentialLR schedule(*trainer_.optimizer, {.gamma = 0.9});
  trainer_.also = [&](const Tensor&) { schedule.step(); };
  Step step = trainer_.captured();
  EXPECT_THAT(said_of(trainer_, step), HasSubstr("a scheduler's step() is called"));
}

TEST_F(CaptureStep, AGeneratorThatIsSeededInAStepIsRefusedByName) {
  Generator generator;
  trainer_.also = [&](const Tensor&) { generator.manual_seed(3); };
  Step step = trainer_.captured();
  EXPECT_THAT(said_of(trainer_, step), HasSubstr("a generator is seeded"));
}

// The generator advances by what each step draws, also if a graph draws it.
TEST_F(CaptureStep, AGeneratorAdvancesWithEachLaunch) {
  Generator generator(7);
  trainer_.also = [&](const Tensor& loss) {
    dl::detail::philox_dropout(loss, 0.5, generator);
    bernoulli(full({5}, 0.5, {.device = device_of(0)}), generator);
  };
  Step step = trainer_.captured({.whole = true});
  for (int i = 1; i < 5; ++i) {
    step(batch(1));
    EXPECT_EQ(generator.philox_offset(), static_cast<std::uint64_t>(i) * (4 + 12));
  }
  EXPECT_EQ(trainer_.runs, 2);
}

TEST_F(CaptureStep, TheEndOfItsOptimizerEndsIt) {
  Step step = trainer_.captured();
  for (int i = 0; i < 3; ++i) step(batch(1));
  trainer_.optimizer.reset();
  EXPECT_TRUE(runtime_.graphs.empty());
  EXPECT_THAT(thrown_by([&] { step(batch(1)); }).text, HasSubstr("(a communicator, an optimizer)"));
}

// Without zero_grad(), a gradient that the capture began would be added to.
TEST_F(CaptureStep, ACaptureThatFailsLeavesGradientsAsTheyWere) {
  const Tensor weight = trainer_.weight;
  bool fails = false;
  Step step{[&](const Tensor& input) {
              const Tensor loss = sum(mul(input, weight));
              loss.backward();
              return fails ? loss.cpu() : loss;
            },
            {.device = device_of(0)}};
  step(batch(1));
  weight.zero_grad();
  fails = true;
  step(batch(2));
  EXPECT_EQ(weight.grad().cpu().at<float>({0}), 2);
  step(batch(3));
  EXPECT_EQ(weight.grad().cpu().at<float>({0}), 5);
}

TEST_F(CaptureStep, AnotherDeviceIsNotDrawnIn) {
  const Tensor there = batch(2).to(device_of(1));
  trainer_.also = [&](const Tensor&) {
    there.to(device_of(0));
    EXPECT_EQ(runtime_.capture_state(default_stream(1).handle), CaptureState::kNone);
  };
  Step step = trainer_.captured();
  EXPECT_THAT(said_of(trainer_, step), HasSubstr("a copy between two devices"));
}

TEST_F(CaptureStep, ACaptureThatBreaksIsGivenUp) {
  runtime_.capture_error = "left work behind";
  Step step = trainer_.captured();
  EXPECT_THAT(said_of(trainer_, step), HasSubstr("the capture broke"));
  runtime_.capture_error.clear();
}

TEST_F(CaptureStep, TheCpuHasNoGraphs) {
  Trainer here{Device{}};
  Step step = here.captured({.backend = "cuda_graph"});
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) step(batch(1));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the backend cuda_graph is for GPUs, not for cpu"));
  EXPECT_EQ(here.runs, 3);
  EXPECT_EQ(here.weight.at<float>({0}), 1 - 0.5F * (1 + 1.9F + 2.71F));
}

TEST_F(CaptureStep, TheGpuHasNoTapes) {
  Step step = trainer_.captured({.backend = "tape", .whole = true});
  EXPECT_THAT(thrown_by([&] { step(batch(1)); }).text,
              HasSubstr("the backend tape is for CPUs, not for cuda:0"));
}

TEST_F(CaptureStep, InputsOfSeveralDevicesAreRefused) {
  auto step = compile([](const Tensor& a, const Tensor&) { return a; }, {.whole = true});
  EXPECT_THAT(thrown_by([&] { step(batch(1).to(device_of(0)), batch(1)); }).text,
              HasSubstr("input 2 is on cpu, input 1 on cuda:0; give the option device"));
}

TEST_F(CaptureStep, AnOptimizersFirstStepIsNotCaptured) {
  trainer_.also = nullptr;
  int calls = 0;
  Step step{[&](const Tensor& input) { return ++calls == 1 ? input : trainer_.step(input); },
            {.device = device_of(0)}};
  ::testing::internal::CaptureStderr();
  step(batch(1));
  step(batch(1));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("first step"));
}

TEST_F(CaptureStep, OneRankThatCannotKeepsAllFromIt) {
  std::atomic<int> through{0};
  run_ranks(2, [&](ProcessGroup& host) {
    const DeviceGuard own(host.rank());
    const Device device = device_of(host.rank());
    const Ref<ProcessGroup> group = collectives::make_device_group(
        Ref<ProcessGroup>(&host), {},
        [](const Ref<ProcessGroup>&, int, const collectives::DeviceGroupOptions&) {
          return make_ref<ScriptedGroup>();
        });
    Trainer trainer(device);
    const auto reduce = [&](const Tensor& loss) {
      group->all_reduce({.input = loss.data_ptr(),
                         .output = loss.data_ptr(),
                         .count = 1,
                         .call = {.stream = current_stream(device.index)}});
    };
    trainer.also = [&](const Tensor& loss) {
      reduce(loss);
      if (group->rank() == 1) static_cast<void>(loss.item<float>());
    };
    Step step = trainer.captured();
    for (int i = 0; i < 3; ++i) step(batch(1));
    EXPECT_FALSE(is_captured(step));
    EXPECT_THAT(step.summary().why_not, StartsWith("rank 1: "));
    EXPECT_EQ(trainer.runs, 4);
    trainer.also = reduce;
    Step good = trainer.captured();
    for (int i = 0; i < 3; ++i) good(batch(1));
    EXPECT_TRUE(is_captured(good));
    // No rank is in a call any more when one ends the group.
    ++through;
    EXPECT_TRUE(tests::eventually([&] { return through == 2; }));
    if (group->rank() == 0) group->abort("enough");
    EXPECT_TRUE(tests::eventually([&] { return group->error() != nullptr; }));
    EXPECT_THAT(thrown_by([&] { good(batch(1)); }).text, HasSubstr("enough"));
  });
}

// Over DDP, alone with a group whose other ranks send the same.
class CaptureDdp : public CaptureStep {
 protected:
  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer_.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(ddp_(x), y);
    scaler_.scale(loss).backward();
    scaler_.step(optimizer_);
    if (also_) also_(loss);
    scaler_.update();
    return loss;
  }
  auto captured() {
    return compile([this](const Tensor& x, const Tensor& y) { return step(x, y); },
                   {.device = device_of(0)});
  }

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
  Tensor x_ = ones({4, 50});
  Tensor y_ = zeros({4}, {.dtype = DType::kI64});
};

TEST_F(CaptureDdp, ReducesBetweenBackwardAndTheOptimizer) {
  const OwnedStream own(0);
  {
    const StreamGuard guard(own.get());
    step(x_.to(device_of(0)), y_.to(device_of(0)));
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
  auto step = captured();
  for (int i = 0; i < 5; ++i) step(x_, y_);
  EXPECT_EQ(step.summary().graphs, 1U) << step.summary().str();
  EXPECT_THAT(group_->all_reduces, SizeIs(2));  // the warm-up's and the capture's
  EXPECT_EQ(step.summary().replays, 4);
}

// A launch within no_sync() averages nothing.
TEST_F(CaptureDdp, HasGraphsOfItsOwnWithinNoSync) {
  auto pass = compile(
      [this](const Tensor& x, const Tensor& y) {
        model_.zero_grad();
        nn::functional::cross_entropy(ddp_(x), y).backward();
      },
      {.device = device_of(0), .whole = true, .warmup_steps = 4});
  for (int i = 0; i < 4; ++i) {
    {
      const nn::parallel::NoSync guard = ddp_.no_sync();
      pass(x_, y_);
    }
    pass(x_, y_);
  }
  EXPECT_EQ(pass.summary().graphs, 2U);
  EXPECT_EQ(pass.summary().replays, 4);
  EXPECT_THAT(group_->all_reduces, SizeIs(3));  // two warm-ups' and a capture's
}

TEST_F(CaptureDdp, FindUnusedParametersIsNotCaptured) {
  nn::parallel::DistributedDataParallel ddp(model_, group_, {.find_unused_parameters = true});
  auto pass = compile(
      [&](const Tensor& x, const Tensor& y) {
        model_.zero_grad();
        nn::functional::cross_entropy(ddp(x), y).backward();
      },
      {.device = device_of(0)});
  const nn::parallel::NoSync guard = ddp.no_sync();
  for (int i = 0; i < 3; ++i) pass(x_, y_);
  EXPECT_THAT(pass.summary().why_not, HasSubstr("find_unused_parameters"));
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
    auto step = captured();
    for (int i = 0; i < 4; ++i) step(x_, y_);
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(step.summary().why_not, "not in a capture");
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
