// The command line of train_gpt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "examples/support/training/run_options.h"

namespace dl::examples::gpt {

struct Options {
  RunOptions run{.program = "train_gpt",
                 .epochs = 3,
                 .batch_size = 16,
                 .optimizer = "adamw",
                 .lr = 1e-3,
                 .weight_decay = 1e-2,
                 .schedule = "cosine",
                 .clip_norm = 1};
  std::string text{};          // empty: nothing to learn, with --epochs 0
  std::string tokenizer{};     // a folder; empty: the tokens are the bytes
  double val_fraction = 0.1;   // of the tokens, at the end of the text
  std::int64_t context = 128;  // tokens of a sample
  std::string model = "gpt-micro";
  std::int64_t layers = 0;  // 0: the model's, as the next two
  std::int64_t heads = 0;
  std::int64_t width = 0;
  double dropout = 0;
  std::int64_t steps = 0;       // of the run; 0: those of --epochs
  std::int64_t accumulate = 1;  // batches a step
  std::int64_t warmup_steps = 0;
  double min_lr = 0;
  std::int64_t eval_every = 0;  // steps; 0: at the end only
  std::optional<std::string> prompt{};
  std::int64_t max_new_tokens = 200;
  double temperature = 0.8;  // 0: the most probable token
  std::int64_t top_k = 0;
  double top_p = 1;
};

// The options, or the exit code of a program that has nothing more to do (CommandLine::parse()).
std::variant<Options, int> parse_options(int argc, const char* const* argv);

// " --steps 500" or " --epochs 3".
std::string length_of_run(const Options& options);
// The options that decide what a step computes, as they are typed, for a text of so many tokens.
// --epochs or --steps is among them only if a schedule depends on it.
std::string settings_of_steps(const Options& options, std::int64_t tokens);

}  // namespace dl::examples::gpt
