#include "examples/train_image/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "examples/train_image/run_state.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"
#include "nn/functional/functional.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"

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

}  // namespace

Trained train(nn::Module& model, const data::Dataset& dataset, const Options& options,
              Device device, const Ref<ProcessGroup>& group, Reporter& reporter,
              Profiling& profiling) {
  data::DistributedSampler sampler(
      dataset.size(), {.num_replicas = group->size(), .rank = group->rank(), .seed = options.seed});
  const data::DataLoader loader(dataset, sampler,
                                {.batch_size = options.batch_size,
                                 .num_workers = options.workers,
                                 .drop_last = true,
                                 .pin_memory = device.type == DeviceType::kCUDA});
  DL_CHECK(loader.size() > 0, kInvalidArgument,
           "one step of {} x {} samples takes more than the training set has, {}; use a smaller "
           "--batch-size",
           group->size(), options.batch_size, dataset.size());

  nn::parallel::DistributedDataParallel ddp(model, group);
  optim::SGD optimizer(model.parameters(), {.lr = options.lr, .momentum = options.momentum});
  // bf16 has f32's range; only f16's gradients need to be scaled.
  amp::GradScaler scaler({.enabled = options.amp == "f16"});
  const AutocastOptions mixed{.dtype = options.amp == "f16" ? DType::kF16 : DType::kBF16,
                              .enabled = options.amp != "off"};
  model.train();
  auto take_step = compile(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        Tensor loss;
        {
          const autocast cast(device.type, mixed);
          loss = nn::functional::cross_entropy(ddp(x), y);
        }
        scaler.scale(loss).backward();
        scaler.step(optimizer);
        scaler.update();
        return loss;
      },
      {.enabled = options.compiles, .device = device});
  const std::int64_t samples_a_step = options.batch_size * group->size();
  Progress now{.epochs = options.epochs, .steps = loader.size()};
  Trained result;
  RunState state(options, {.model = model, .optimizer = optimizer, .scaler = scaler}, group);
  const std::optional<Position> stopped = state.resume();
  if (stopped) {
    reporter.note(fmt::format("goes on after step {}, in epoch {}", stopped->step_of_run,
                              stopped->epoch + 1));
  }
  const Position begin = stopped.value_or(Position{});
  std::int64_t step_of_run = begin.step_of_run;
  profiling.start(options.epochs * loader.size() - step_of_run);
  for (now.epoch = begin.epoch + 1; now.epoch <= options.epochs; ++now.epoch) {
    now.step = now.epoch == begin.epoch + 1 ? begin.step : 0;
    const std::int64_t done = now.step;
    sampler.resume({.epoch = now.epoch - 1, .offset = done * samples_a_step});
    const auto start = Clock::now();
    data::DataLoader::Iterator batches = loader.begin();
    if (done > 0) state.restore_random();
    for (; batches != loader.end(); ++batches) {
      const data::Batch& batch = *batches;
      const Tensor loss = take_step(batch[0], batch[1]);
      ++now.step;
      ++step_of_run;
      if (reporter.wants_loss(step_of_run, now.step == now.steps)) {
        now.loss = mean_over_ranks(loss.item<double>(), *group);
      }
      now.samples_per_s =
          static_cast<double>((now.step - done) * samples_a_step) / seconds_since(start);
      reporter.step(step_of_run, now);
      const bool ends_epoch = now.step == now.steps;
      state.after_step({.epoch = ends_epoch ? now.epoch : now.epoch - 1,
                        .step = ends_epoch ? 0 : now.step,
                        .step_of_run = step_of_run});
      profiling.step();
    }
    result.seconds += seconds_since(start);
    result.samples += (now.steps - done) * samples_a_step;
    reporter.epoch_done(now);
  }
  profiling.stop();
  if (group->size() > 1 && options.epochs > 0) {
    reporter.note("communication: " + ddp.overlap().str());
  }
  return result;
}

double accuracy(nn::Module& model, const data::Dataset& dataset, const Options& options,
                Device device, ProcessGroup& group) {
  data::DistributedSampler sampler(dataset.size(), {.num_replicas = group.size(),
                                                    .rank = group.rank(),
                                                    .shuffle = false,
                                                    .remainder = data::Remainder::kUneven});
  const data::DataLoader loader(dataset, sampler,
                                {.batch_size = options.batch_size, .num_workers = options.workers});
  const NoGradGuard no_grad;
  model.eval();
  std::array<std::int64_t, 2> counts = {0, 0};  // correct, all
  for (const data::Batch& batch : loader) {
    counts[0] += count_correct(model(batch[0].to(device)).cpu(), batch[1]);
    counts[1] += batch.size();
  }
  sum_over_ranks(counts, group);
  DL_CHECK(counts[1] == dataset.size(), kInternal, "evaluation counted {} of {} test samples",
           counts[1], dataset.size());
  return counts[1] == 0 ? 0 : static_cast<double>(counts[0]) / static_cast<double>(counts[1]);
}

}  // namespace dl::examples
