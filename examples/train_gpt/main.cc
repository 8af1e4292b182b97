// train_gpt: trains a GPT on a text, on one process or on many, and lets it write.
//
//     train_gpt --text book.txt --generate "It was"             # a small network, on bytes
//     dlrun --nproc-per-node 2 train_gpt --text book.txt --model gpt2 --load DIR --tokenizer DIR
//
// Copy this folder to begin a program of your own: models.h says which networks there are, corpus.h
// how a text becomes samples, train.h how they are learned. The loop, optimizers, schedules,
// checkpoints and what is shown are in examples/support/training.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "collectives/init/init.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"
#include "core/random/generator.h"
#include "examples/support/training/checks.h"
#include "examples/support/training/session.h"
#include "examples/train_gpt/corpus.h"
#include "examples/train_gpt/models.h"
#include "examples/train_gpt/options.h"
#include "examples/train_gpt/train.h"

namespace dl::examples::gpt {
namespace {

// What ranks compare: also what decides how long they work together.
std::string settings_of_run(const Options& options, std::int64_t tokens) {
  return settings_of_steps(options, tokens) + length_of_run(options) +
         (options.eval_every == 0 ? "" : fmt::format(" --eval-every {}", options.eval_every));
}

std::string describe(const Options& options, const Corpus& corpus) {
  return fmt::format("{}: {} tokens, {} training and {} validation samples of {}", options.text,
                     corpus.tokens, corpus.train->size(), corpus.val ? corpus.val->size() : 0,
                     options.context);
}

void run(const Options& options) {
  if (options.run.threads > 0) set_num_threads(options.run.threads);
  const Device device = cuda::choose_device(options.run.device);
  // All that files may be wrong in comes before the ranks wait for each other.
  const Tokenizer tokenizer(options.tokenizer);
  std::optional<Corpus> corpus;
  if (!options.text.empty()) {
    corpus = read_corpus(
        {.path = options.text, .context = options.context, .val_fraction = options.val_fraction},
        tokenizer);
  }
  std::optional<nn::Safetensors> weights;
  if (!options.run.load.empty()) weights = read_weights(options.run.load);
  manual_seed(options.run.seed);
  const auto model = make_model(options, tokenizer.size(), weights ? &*weights : nullptr);
  weights.reset();
  model->to(device);

  init_process_group();
  const Ref<collectives::ProcessGroup> group = default_group();
  require_writable_places(options.run, *group);
  require_equal_settings(settings_of_run(options, corpus ? corpus->tokens : 0), options.run,
                         *group);
  Reporter reporter(reporter_config(options.run, *group, "tokens"));
  reporter.note(fmt::format("{}{}, {} parameters, {}",
                            corpus ? describe(options, *corpus) + "; " : "", options.model,
                            model->count_parameters(), describe_ranks(*group, device)));

  Profiling profiling(options.run);
  Trained trained;
  if (corpus) {
    trained = train(TextTraining{.model = *model,
                                 .corpus = *corpus,
                                 .options = options,
                                 .device = device,
                                 .group = group,
                                 .reporter = reporter,
                                 .profiling = profiling});
    if (!trained.scores && corpus->val) {
      trained.scores = test(*model, *corpus->val, options, device, *group).scores;
    }
  }
  const Result result = conclude({.model = *model,
                                  .scores = trained.scores.value_or(Scores{}),
                                  .per_s = trained.per_s(),
                                  .metadata = {{"model", options.model}}},
                                 options.run, *group, profiling, reporter);
  const bool writes = group->rank() == 0 && options.prompt;
  destroy_process_group();  // the other ranks need not wait
  if (writes) reporter.generated(*options.prompt, write_text(*model, tokenizer, options, device));
  reporter.finish(result);
}

}  // namespace
}  // namespace dl::examples::gpt

int main(int argc, char** argv) {
  namespace gpt = dl::examples::gpt;
  const auto options = gpt::parse_options(argc, argv);
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  gpt::run(std::get<gpt::Options>(options));
  return 0;
}
