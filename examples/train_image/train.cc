#include "examples/train_image/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/tensor/tensor_api.h"
#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/random/generator.h"
#include "examples/support/training/choices/optimizers.h"
#include "examples/support/training/choices/schedules.h"
#include "examples/support/training/report/blame.h"
#include "examples/support/training/run_state.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"
#include "nn/functional/functional.h"
#include "nn/optim/swa_utils.h"
#include "nn/parallel/distributed.h"
#include "nn/utils/clip_grad.h"

namespace dl::examples {
namespace {

using Clock = std::chrono::steady_clock;
using collectives::ProcessGroup;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename T, std::size_t kCount>
void sum_over_ranks(std::array<T, kCount>& values, ProcessGroup& group) {
  group
      .all_reduce(
          {.input = values.data(), .output = values.data(), .count = kCount, .dtype = kDTypeOf<T>})
      ->wait();
}

// The mean over the global batch: every rank has as many samples.
double mean_over_ranks(double value, ProcessGroup& group) {
  std::array<double, 1> sum = {value};
  sum_over_ranks(sum, group);
  return sum[0] / group.size();
}

std::int64_t count_correct(const Tensor& logits, const Tensor& target) {
  const Tensor rows = logits.contiguous();
  const std::int64_t classes = rows.size(1);
  const auto* row = rows.data<float>();
  const auto* labels = target.data<std::int64_t>();
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += classes) {
    correct += std::max_element(row, row + classes) - row == labels[i] ? 1 : 0;
  }
  return correct;
}

// How many samples of the set the model puts into their class, in evaluation mode.
std::int64_t count_right(nn::Module& model, const data::Dataset& dataset, const Options& options,
                         Device device, ProcessGroup& group) {
  data::DistributedSampler sampler(dataset.size(), {.num_replicas = group.size(),
                                                    .rank = group.rank(),
                                                    .shuffle = false,
                                                    .remainder = data::Remainder::kUneven});
  // The training's random numbers do not depend on how often there is an evaluation.
  Generator unused;
  const data::DataLoader loader(
      dataset, sampler,
      {.batch_size = options.batch_size, .num_workers = options.workers, .generator = &unused});
  const NoGradGuard no_grad;
  model.eval();
  // In training, each rank has running statistics of its own batches.
  for (const Tensor& buffer : model.buffers()) collectives::broadcast(group, buffer)->wait();
  std::array<std::int64_t, 2> counts = {0, 0};  // right, all
  for (const data::Batch& batch : loader) {
    counts[0] += count_correct(model(batch[0].to(device)).cpu(), batch[1]);
    counts[1] += batch.size();
  }
  sum_over_ranks(counts, group);
  DL_CHECK(counts[1] == dataset.size(), kInternal, "evaluation counted {} of {} test samples",
           counts[1], dataset.size());
  return counts[0];
}

double share_of(std::int64_t samples, const data::Dataset& dataset) {
  return dataset.size() == 0 ? 0
                             : static_cast<double>(samples) / static_cast<double>(dataset.size());
}

// The parts of a training step. On a CPU the loss is looked at before the parameters change, so
// that the batch of a loss that is no number can be run again as it was; on a GPU that would make
// the host wait in each step, so the whole step is one function, which dl::compile captures.
class Stepper {
 public:
  explicit Stepper(const Training& t)
      : model_(t.model),
        options_(t.options),
        device_(t.device),
        ddp_(t.model, t.group),
        optimizer_(find_optimizer(t.options.optimizer)
                       .make(t.model.parameters(), {.lr = t.options.lr,
                                                    .momentum = t.options.momentum,
                                                    .weight_decay = t.options.weight_decay})),
        // bf16 has f32's range; only f16's gradients need to be scaled.
        scaler_({.enabled = t.options.amp == "f16"}) {
    if (t.average != nullptr) {
      average_.emplace(*t.average, t.model,
                       optim::swa_utils::AveragedModelOptions{.ema_decay = t.options.ema});
    }
  }

  // The loss before the update.
  Tensor forward_backward(const Tensor& x, const Tensor& y) {
    optimizer_->zero_grad();
    Tensor loss;
    {
      const autocast cast(device_.type, mixed());
      loss =
          nn::functional::cross_entropy(ddp_(x), y, {.label_smoothing = options_.label_smoothing});
    }
    scaler_.scale(loss).backward();
    return loss;
  }
  void update() {
    if (options_.clip_norm > 0) {
      scaler_.unscale_(*optimizer_);
      nn::utils::clip_grad_norm_(optimizer_->parameters(), options_.clip_norm);
    }
    scaler_.step(*optimizer_);
    scaler_.update();
    if (average_) average_->update_parameters();
  }
  bool looks_first() const noexcept { return device_.type == DeviceType::kCPU; }

  // Throws if the loss of this batch is no number.
  void require_finite(double loss, const Tensor& x, std::int64_t step_of_run) {
    if (std::isfinite(loss)) return;
    std::string blamed;
    {
      const autocast cast(device_.type, mixed());
      blamed = blame_for(model_, x.to(device_));
    }
    throw_error(ErrorKind::kInvalidArgument,
                "the loss of step {} is {}: {}; try a smaller --lr, --warmup-epochs or "
                "--clip-norm{}",
                step_of_run, loss, blamed, options_.amp == "off" ? "" : ", or --amp off");
  }

  nn::parallel::DistributedDataParallel& ddp() noexcept { return ddp_; }
  optim::Optimizer& optimizer() const noexcept { return *optimizer_; }
  amp::GradScaler& scaler() noexcept { return scaler_; }
  optim::swa_utils::AveragedModel* average() noexcept { return average_ ? &*average_ : nullptr; }

 private:
  AutocastOptions mixed() const {
    return {.dtype = options_.amp == "f16" ? DType::kF16 : DType::kBF16,
            .enabled = options_.amp != "off"};
  }

  nn::Module& model_;
  const Options& options_;
  Device device_;
  nn::parallel::DistributedDataParallel ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  amp::GradScaler scaler_;
  std::optional<optim::swa_utils::AveragedModel> average_{};
};

bool is_evaluated(std::int64_t epoch, const Options& options) {
  return options.eval_every > 0 && (epoch % options.eval_every == 0 || epoch == options.epochs);
}

}  // namespace

Trained train(const Training& t) {
  const Options& options = t.options;
  collectives::ProcessGroup& group = *t.group;
  const data::Dataset& dataset = *t.task.train;
  data::DistributedSampler sampler(
      dataset.size(), {.num_replicas = group.size(), .rank = group.rank(), .seed = options.seed});
  // Its seed gives an epoch's augmentations, also to a run that goes on in the middle of it.
  Generator epoch_numbers;
  const data::DataLoader loader(dataset, sampler,
                                {.batch_size = options.batch_size,
                                 .num_workers = options.workers,
                                 .drop_last = true,
                                 .pin_memory = t.device.type == DeviceType::kCUDA,
                                 .generator = &epoch_numbers});
  DL_CHECK(loader.size() > 0, kInvalidArgument,
           "one step of {} x {} samples takes more than the training set has, {}; use a smaller "
           "--batch-size",
           group.size(), options.batch_size, dataset.size());

  t.model.train();
  Stepper stepper(t);
  RateSchedule schedule(options, stepper.optimizer(), loader.size());
  auto take_step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = stepper.forward_backward(x, y);
        if (!stepper.looks_first()) stepper.update();
        return loss;
      },
      {.enabled = options.compiles, .device = t.device});
  const std::int64_t samples_a_step = options.batch_size * group.size();
  Progress now{.epochs = options.epochs, .steps = loader.size()};
  Trained result;
  RunState state(options,
                 {.model = t.model,
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
  std::int64_t best = begin.best;
  // Tests the model, and returns the seconds that this took.
  const auto evaluate = [&] {
    const auto began = Clock::now();
    nn::Module& model = t.average != nullptr ? *t.average : t.model;
    const std::int64_t right = count_right(model, *t.task.test, options, t.device, group);
    t.model.train();
    result.test_accuracy = share_of(right, *t.task.test);
    t.reporter.evaluated({.epoch = now.epoch,
                          .step_of_run = step_of_run,
                          .test_accuracy = *result.test_accuracy,
                          .best = right > best});
    if (right > best) state.keep_best(model, now.epoch, *result.test_accuracy);
    best = std::max(best, right);
    return seconds_since(began);
  };
  t.profiling.start(options.epochs * loader.size() - step_of_run);
  for (now.epoch = begin.epoch + 1; now.epoch <= options.epochs; ++now.epoch) {
    now.step = now.epoch == begin.epoch + 1 ? begin.step : 0;
    const std::int64_t done = now.step;
    sampler.resume({.epoch = now.epoch - 1, .offset = done * samples_a_step});
    epoch_numbers.manual_seed(options.seed + static_cast<std::uint64_t>(now.epoch));
    double evaluating = 0;
    const auto start = Clock::now();
    for (const data::Batch& batch : loader) {
      if (schedule.changes_rate()) now.lr = stepper.optimizer().lr();
      const Tensor loss = take_step(batch[0], batch[1]);
      ++now.step;
      ++step_of_run;
      if (stepper.looks_first()) {
        stepper.require_finite(loss.item<double>(), batch[0], step_of_run);
        stepper.update();
      }
      schedule.step();
      // No checkpoint is saved after a loss that is no number, from which no run could go on.
      if (t.reporter.wants_loss(step_of_run, now.step == now.steps) ||
          state.saves_after(step_of_run)) {
        now.loss = mean_over_ranks(loss.item<double>(), group);
        stepper.require_finite(now.loss, batch[0], step_of_run);
      }
      now.samples_per_s =
          static_cast<double>((now.step - done) * samples_a_step) / seconds_since(start);
      t.reporter.step(step_of_run, now);
      const bool ends_epoch = now.step == now.steps;
      if (ends_epoch) {
        t.reporter.epoch_done(now);
        // Before the checkpoint, so that a run that goes on from it lacks no evaluation.
        if (is_evaluated(now.epoch, options)) evaluating = evaluate();
      }
      state.after_step({.epoch = ends_epoch ? now.epoch : now.epoch - 1,
                        .step = ends_epoch ? 0 : now.step,
                        .step_of_run = step_of_run,
                        .best = best});
      t.profiling.step();
    }
    result.seconds += seconds_since(start) - evaluating;
    result.samples += (now.steps - done) * samples_a_step;
  }
  t.profiling.stop();
  if (group.size() > 1 && options.epochs > 0) {
    t.reporter.note("communication: " + stepper.ddp().overlap().str());
  }
  return result;
}

double accuracy(nn::Module& model, const data::Dataset& dataset, const Options& options,
                Device device, ProcessGroup& group) {
  return share_of(count_right(model, dataset, options, device, group), dataset);
}

}  // namespace dl::examples
