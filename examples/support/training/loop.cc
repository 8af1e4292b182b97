#include "examples/support/training/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/random/generator.h"
#include "examples/support/training/ranks.h"
#include "examples/support/training/run_state.h"
#include "nn/compile/compile.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"

namespace dl::examples {
namespace {

using Clock = std::chrono::steady_clock;
using collectives::ProcessGroup;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The mean over the global batch: every rank has as many samples.
double mean_over_ranks(double value, ProcessGroup& group) {
  std::array<double, 1> sum = {value};
  sum_over_ranks(sum, group);
  return sum[0] / group.size();
}

// What a run consists of. An epoch that --steps cuts short has fewer steps.
class Extent {
 public:
  Extent(const Training& t, std::int64_t steps_an_epoch)
      : steps_an_epoch_(steps_an_epoch),
        steps_(t.steps > 0 ? t.steps : t.run.epochs * steps_an_epoch) {}

  std::int64_t steps() const noexcept { return steps_; }
  std::int64_t epochs() const noexcept { return (steps_ + steps_an_epoch_ - 1) / steps_an_epoch_; }
  std::int64_t steps_of_epoch(std::int64_t epoch) const noexcept {  // from 1
    return std::min(steps_an_epoch_, steps_ - (epoch - 1) * steps_an_epoch_);
  }
  // After so many steps of an epoch.
  Position position(std::int64_t epoch, std::int64_t step) const noexcept {
    const bool whole = step == steps_an_epoch_;
    return {.epoch = whole ? epoch : epoch - 1, .step = whole ? 0 : step};
  }

 private:
  std::int64_t steps_an_epoch_;
  std::int64_t steps_;
};

}  // namespace

Trained train(const Training& t) {
  const RunOptions& run = t.run;
  ProcessGroup& group = *t.group;
  data::DistributedSampler sampler(
      t.dataset.size(), {.num_replicas = group.size(), .rank = group.rank(), .seed = run.seed});
  // Its seed gives an epoch's augmentations, also to a run that goes on in the middle of it.
  Generator epoch_numbers;
  const std::int64_t samples_of_rank = run.batch_size * t.step.accumulate;
  const data::DataLoader loader(t.dataset, sampler,
                                {.batch_size = samples_of_rank,
                                 .num_workers = run.workers,
                                 .drop_last = true,
                                 .pin_memory = t.device.type == DeviceType::kCUDA,
                                 .generator = &epoch_numbers});
  DL_CHECK(loader.size() > 0, kInvalidArgument,
           "one step of {} x {} samples takes more than the training set has, {}; use a smaller "
           "--batch-size",
           group.size(), samples_of_rank, t.dataset.size());
  const Extent extent(t, loader.size());

  t.step.model.train();
  Step stepper(t.step, run, t.device, t.group);
  RateSchedule schedule(t.schedule(loader.size(), extent.steps()), stepper.optimizer());
  auto take_step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = stepper.forward_backward(x, y);
        if (!stepper.looks_first()) stepper.update();
        return loss;
      },
      {.enabled = run.compiles, .device = t.device});
  const std::int64_t samples_a_step = samples_of_rank * group.size();
  const std::int64_t units_a_step = samples_a_step * t.units_a_sample;
  Progress now{.epochs = extent.epochs()};
  Trained result;
  RunState state(run, t.settings,
                 {.model = t.step.model,
                  .optimizer = stepper.optimizer(),
                  .scaler = stepper.scaler(),
                  .schedule = schedule,
                  .average = stepper.average()},
                 t.group);
  const std::optional<Position> stopped = state.resume();
  if (stopped) {
    t.reporter.note(fmt::format("goes on after step {}, in epoch {}", stopped->step_of_run,
                                stopped->epoch + 1));
  }
  const Position begin = stopped.value_or(Position{});
  std::int64_t step_of_run = begin.step_of_run;
  std::optional<double> best = begin.best;
  // Tests the model, and returns the seconds that this took.
  const auto test = [&] {
    const auto began = Clock::now();
    nn::Module& model = t.step.average != nullptr ? *t.step.average : t.step.model;
    const Tested tested = t.test(model);
    t.step.model.train();
    const bool is_best = !best || tested.mark > *best;
    t.reporter.evaluated({.epoch = now.epoch,
                          .step_of_run = step_of_run,
                          .within_epoch = t.tests_within_epochs,
                          .scores = tested.scores,
                          .best = is_best});
    if (is_best) {
      best = tested.mark;
      nn::Metadata metadata = t.best_metadata;
      metadata["epoch"] = std::to_string(now.epoch);
      metadata["step"] = std::to_string(step_of_run);
      for (const Score& score : tested.scores)
        metadata[score.name] = fmt::format("{}", score.value);
      state.keep_best(model, metadata);
    }
    result.scores = tested.scores;
    return seconds_since(began);
  };
  t.profiling.start(extent.steps() - step_of_run);
  for (now.epoch = begin.epoch + 1; now.epoch <= now.epochs; ++now.epoch) {
    now.step = now.epoch == begin.epoch + 1 ? begin.step : 0;
    now.steps = extent.steps_of_epoch(now.epoch);
    const std::int64_t done = now.step;
    if (done >= now.steps) break;  // a run that is resumed after its last step
    sampler.resume({.epoch = now.epoch - 1, .offset = done * samples_a_step});
    epoch_numbers.manual_seed(run.seed + static_cast<std::uint64_t>(now.epoch));
    double testing = 0;
    const auto start = Clock::now();
    for (const data::Batch& batch : loader) {
      if (schedule.changes_rate()) now.lr = stepper.optimizer().lr();
      const Tensor loss = take_step(batch[0], batch[1]);
      ++now.step;
      ++step_of_run;
      result.scores.reset();
      if (stepper.looks_first()) {
        stepper.require_finite(loss.item<double>(), batch[0], step_of_run);
        stepper.update();
      }
      schedule.step();
      const bool ends_epoch = now.step == now.steps;
      // No checkpoint is saved after a loss that is no number, from which no run could go on.
      if (t.reporter.wants_loss(step_of_run, ends_epoch) || state.saves_after(step_of_run)) {
        now.loss = mean_over_ranks(loss.item<double>(), group);
        stepper.require_finite(now.loss, batch[0], step_of_run);
      }
      now.per_s =
          static_cast<double>((now.step - done) * units_a_step) / (seconds_since(start) - testing);
      t.reporter.step(step_of_run, now);
      if (ends_epoch) t.reporter.epoch_done(now);
      // Before the checkpoint, so that a run that goes on from it lacks no test.
      if (t.tests_at({.epoch = now.epoch,
                      .step_of_run = step_of_run,
                      .ends_epoch = ends_epoch,
                      .ends_run = step_of_run == extent.steps()})) {
        testing += test();
      }
      Position position = extent.position(now.epoch, now.step);
      position.step_of_run = step_of_run;
      position.best = best;
      state.after_step(position);
      t.profiling.step();
      if (ends_epoch) break;
    }
    result.seconds += seconds_since(start) - testing;
    result.units += (now.steps - done) * units_a_step;
  }
  t.profiling.stop();
  if (group.size() > 1 && extent.steps() > 0) {
    t.reporter.note("communication: " + stepper.ddp().overlap().str());
  }
  return result;
}

}  // namespace dl::examples
