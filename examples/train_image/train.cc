#include "examples/train_image/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "collectives/tensor/tensor_api.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/random/generator.h"
#include "examples/support/training/ranks.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"
#include "nn/functional/functional.h"

namespace dl::examples {
namespace {

using collectives::ProcessGroup;

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
  const data::DataLoader loader(dataset, sampler,
                                {.batch_size = options.run.batch_size,
                                 .num_workers = options.run.workers,
                                 .generator = &unused});
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

}  // namespace

Tested test(nn::Module& model, const data::Dataset& dataset, const Options& options, Device device,
            ProcessGroup& group) {
  const std::int64_t right = count_right(model, dataset, options, device, group);
  const double share =
      dataset.size() == 0 ? 0 : static_cast<double>(right) / static_cast<double>(dataset.size());
  return {.scores = {{"test_accuracy", share, fmt::format("test accuracy {:.2f} %", 100 * share)}},
          .mark = static_cast<double>(right)};
}

Trained train(const ImageTraining& t) {
  const Options& options = t.options;
  return train(Training{
      .step = {.model = t.model,
               .loss =
                   [&options](const Tensor& logits, const Tensor& target) {
                     return nn::functional::cross_entropy(
                         logits, target, {.label_smoothing = options.label_smoothing});
                   },
               .parameters =
                   [](nn::Module& model) {
                     return TrainedParameters{.decayed = model.parameters()};
                   },
               .average = t.average,
               .ema = options.ema,
               .slower_start = "--warmup-epochs"},
      .dataset = *t.task.train,
      .run = options.run,
      .settings = settings_of_steps(options),
      .schedule =
          [&options](std::int64_t steps_an_epoch, std::int64_t steps) {
            const std::int64_t step_epochs =
                options.step_epochs > 0 ? options.step_epochs
                                        : std::max<std::int64_t>(1, options.run.epochs / 3);
            return SchedulePlan{.schedule = options.run.schedule,
                                .lr = options.run.lr,
                                .steps = steps,
                                .warmup = options.warmup_epochs * steps_an_epoch,
                                .step_every = step_epochs * steps_an_epoch,
                                .gamma = options.gamma};
          },
      .tests_at =
          [&options](const Moment& moment) {
            return options.eval_every > 0 && moment.ends_epoch &&
                   (moment.epoch % options.eval_every == 0 || moment.ends_run);
          },
      .test =
          [&t](nn::Module& model) {
            return test(model, *t.task.test, t.options, t.device, *t.group);
          },
      .best_metadata = {{"model", options.model}, {"dataset", options.dataset}},
      .device = t.device,
      .group = t.group,
      .reporter = t.reporter,
      .profiling = t.profiling});
}

}  // namespace dl::examples
