#include "examples/train_gpt/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/shape/shape.h"
#include "core/random/generator.h"
#include "core/tensor/factories.h"
#include "examples/support/training/ranks.h"
#include "examples/support/training/report/blame.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"
#include "nn/functional/functional.h"
#include "nn/models/sequence/generate.h"

namespace dl::examples::gpt {
namespace {

Tensor loss_of(const Tensor& logits, const Tensor& target) {
  return nn::functional::cross_entropy(logits.flatten(0, 1), target.flatten());
}

// Biases and the weights of norms do not decay (Radford et al. 2018).
TrainedParameters divide(nn::Module& model) {
  TrainedParameters parameters;
  for (const Tensor& one : model.parameters()) {
    (one.dim() > 1 ? parameters.decayed : parameters.others).push_back(one);
  }
  return parameters;
}

SchedulePlan plan(const Options& options, std::int64_t steps) {
  DL_CHECK(options.warmup_steps == 0 || options.warmup_steps < steps || steps == 0,
           kInvalidArgument, "--warmup-steps {} leaves no step of the {} that this run has",
           options.warmup_steps, steps);
  return {.schedule = options.run.schedule,
          .lr = options.run.lr,
          .steps = steps,
          .warmup = options.warmup_steps,
          .step_every = std::max<std::int64_t>(1, steps / 3),
          .min_lr = options.min_lr};
}

}  // namespace

Tested test(nn::Module& model, const data::Dataset& samples, const Options& options, Device device,
            collectives::ProcessGroup& group) {
  data::DistributedSampler sampler(samples.size(), {.num_replicas = group.size(),
                                                    .rank = group.rank(),
                                                    .shuffle = false,
                                                    .remainder = data::Remainder::kUneven});
  Generator unused;  // the training's random numbers do not depend on how often there is a test
  const data::DataLoader loader(samples, sampler,
                                {.batch_size = options.run.batch_size,
                                 .num_workers = options.run.workers,
                                 .generator = &unused});
  const NoGradGuard no_grad;
  model.eval();
  std::array<double, 2> sums = {0, 0};  // of losses, of samples
  for (const data::Batch& batch : loader) {
    const Tensor words = batch[0].to(device);
    const auto loss = loss_of(model(words), batch[1].to(device)).item<double>();
    DL_CHECK(std::isfinite(loss), kInvalidArgument, "the validation loss is {}: {}", loss,
             blame_for(model, words));
    sums[0] += loss * static_cast<double>(batch.size());
    sums[1] += static_cast<double>(batch.size());
  }
  sum_over_ranks(sums, group);
  DL_CHECK(sums[1] == static_cast<double>(samples.size()), kInternal,
           "validation counted {} of {} samples", sums[1], samples.size());
  const double loss = sums[0] / sums[1];
  const double perplexity = std::exp(loss);
  return {.scores = {{"val_loss", loss, fmt::format("validation loss {:.4f}", loss)},
                     {"val_perplexity", perplexity, fmt::format("perplexity {:.4g}", perplexity)}},
          .mark = -loss};
}

Trained train(const TextTraining& t) {
  const Options& options = t.options;
  return train(Training{.step = {.model = t.model,
                                 .loss = loss_of,
                                 .parameters = divide,
                                 .accumulate = options.accumulate,
                                 .slower_start = "--warmup-steps"},
                        .dataset = *t.corpus.train,
                        .run = options.run,
                        .settings = settings_of_steps(options, t.corpus.tokens),
                        .steps = options.steps,
                        .units_a_sample = options.context,
                        .schedule = [&options](std::int64_t /*steps_an_epoch*/,
                                               std::int64_t steps) { return plan(options, steps); },
                        .tests_at =
                            [&options](const Moment& moment) {
                              return options.eval_every > 0 &&
                                     (moment.step_of_run % options.eval_every == 0 ||
                                      moment.ends_run);
                            },
                        .test =
                            [&t](nn::Module& model) {
                              return test(model, *t.corpus.val, t.options, t.device, *t.group);
                            },
                        .tests_within_epochs = true,
                        .best_metadata = {{"model", options.model}},
                        .device = t.device,
                        .group = t.group,
                        .reporter = t.reporter,
                        .profiling = t.profiling});
}

std::string write_text(nn::models::GPT2LMHeadModel& model, const Tokenizer& tokenizer,
                       const Options& options, Device device) {
  std::vector<std::int64_t> tokens = tokenizer.encode(*options.prompt);
  const std::optional<std::int64_t> end = tokenizer.end_of_text();
  if (tokens.empty()) tokens = end ? std::vector{*end} : tokenizer.encode("\n");
  const std::size_t given = tokens.size();
  // A model that was not loaded has learned these positions only.
  const auto positions = static_cast<std::size_t>(
      options.run.load.empty() ? options.context : model.transformer.options.n_positions);
  model.eval();
  Generator generator(options.run.seed);
  const auto wanted = given + static_cast<std::size_t>(options.max_new_tokens);
  bool has_ended = false;
  while (tokens.size() < wanted && !has_ended) {
    const std::size_t read =
        tokens.size() < positions ? tokens.size() : std::max<std::size_t>(1, positions / 2);
    const std::vector<std::int64_t> last(tokens.end() - static_cast<std::ptrdiff_t>(read),
                                         tokens.end());
    const std::size_t room = std::max<std::size_t>(1, positions - read);
    const Tensor text = nn::models::generate(
        model, tensor(last).unsqueeze(0).to(device),
        {.max_new_tokens = static_cast<std::int64_t>(std::min(wanted - tokens.size(), room)),
         .sampling = {.do_sample = options.temperature > 0,
                      .temperature = options.temperature,
                      .top_k = options.top_k,
                      .top_p = options.top_p},
         .end_token = end},
        generator);
    const Tensor words = text.cpu().contiguous();
    const auto* const word = words.data<std::int64_t>();
    for (auto i = static_cast<std::int64_t>(read); i < words.size(1) && !has_ended; ++i) {
      has_ended = word[i] == end;
      if (!has_ended) tokens.push_back(word[i]);
    }
  }
  return tokenizer.decode(std::span(tokens).subspan(given));
}

}  // namespace dl::examples::gpt
