// What a training program says while it works: JSON objects or lines on stdout, a progress bar on a
// terminal.
//
// Only rank 0 says anything. One thread uses a reporter.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dl::examples {

struct Progress {
  std::int64_t epoch = 0;  // from 1
  std::int64_t epochs = 0;
  std::int64_t step = 0;  // in the epoch, from 1
  std::int64_t steps = 0;
  double loss = 0;             // the last that is known
  double per_s = 0;            // samples or tokens, as Reporter::Config has it
  std::optional<double> lr{};  // of the step, if a schedule changes it
};

// One figure of how good a model is.
struct Score {
  std::string name;  // in JSON: "test_accuracy"
  double value = 0;
  std::string text;  // for people: "test accuracy 97.50 %"
};
using Scores = std::vector<Score>;

// A test in the middle of a run.
struct Evaluation {
  std::int64_t epoch = 0;  // in or after which it was made, from 1
  std::int64_t step_of_run = 0;
  bool within_epoch = false;  // people are shown the step, too
  Scores scores{};
  bool best = false;  // so far
};

// One line of at most `width` columns: "epoch 2/5 [=====>    ] 11/22, loss 0.1234, 2345 samples/s".
// What does not fit is left out from the bar on.
std::string progress_line(const Progress& progress, const std::string& unit, int width);

struct Result {
  Scores scores{};
  double per_s = 0;  // samples or tokens of all ranks, over the steps of training
  std::int64_t parameters = 0;
  std::string parameters_sha256{};
  int world_size = 1;
};

class Reporter {
 public:
  struct Config {
    bool speaks = true;  // rank 0
    bool json = false;
    std::int64_t log_every = 10;
    int progress_width = 0;        // columns of the terminal; 0: no bar
    std::string unit = "samples";  // of speeds
    std::FILE* out = stdout;
  };
  explicit Reporter(Config config) : config_(std::move(config)) {}

  // A text for people, e.g. how the run is set up; not printed with json.
  void note(const std::string& line);
  // Whether the loss of this step (counted from 1 over the run) will be shown; all ranks answer
  // alike.
  bool wants_loss(std::int64_t step_of_run, bool last_of_epoch) const noexcept;
  // After each step; `progress.loss` is this step's loss if wants_loss() returned true.
  void step(std::int64_t step_of_run, const Progress& progress);
  void epoch_done(const Progress& progress);
  void evaluated(const Evaluation& evaluation);
  // A text that a model wrote, and the beginning that it was given. JSON has U+FFFD for bytes that
  // are not UTF-8.
  void generated(const std::string& prompt, const std::string& text);
  void finish(const Result& result);

 private:
  void print(const std::string& line);
  void show_bar(const Progress& progress);
  void clear_bar();

  Config config_;
  std::size_t bar_columns_ = 0;  // that stand on the terminal now
  std::chrono::steady_clock::time_point bar_shown_{};
};

// The width of the terminal that stdout is, or of the one that dlrun shows rank 0 on
// (DLRUN_PROGRESS_WIDTH); 0 for neither.
int terminal_width();

}  // namespace dl::examples
