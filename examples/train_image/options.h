// The command line of train_image, and of programs that are train_image with other defaults.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "examples/support/training/run_options.h"

namespace dl::examples {

// The defaults are train_cnn's.
struct Options {
  RunOptions run{};
  std::string model = "book";
  std::string dataset = "digits";
  std::string data_dir{};       // empty: the digits that come with dlrun
  std::int64_t image_size = 0;  // 0: the data set's and the model's
  std::string augment = "none";
  std::int64_t warmup_epochs = 0;
  std::int64_t step_epochs = 0;  // 0: a third of the epochs
  double gamma = 0.1;
  double label_smoothing = 0;
  double ema = 0;               // 0: no moving average
  std::int64_t eval_every = 0;  // epochs; 0: at the end only
};

struct Program {
  std::string_view name;
  std::string_view about;  // a sentence for --help
  Options defaults{};
};

// The options, or the exit code of a program that has nothing more to do (CommandLine::parse()).
std::variant<Options, int> parse_options(const Program& program, int argc, const char* const* argv);

// The options that decide what a step computes, as they are typed. --epochs is among them only if a
// schedule depends on it.
std::string settings_of_steps(const Options& options);

}  // namespace dl::examples
