// The command line of train_image, and of programs that are train_image with other defaults.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace dl::examples {

// The defaults are train_cnn's.
struct Options {
  std::string program = "train_cnn";
  std::string model = "book";
  std::string dataset = "digits";
  std::string data_dir{};       // empty: the digits that come with dlrun
  std::int64_t image_size = 0;  // 0: the data set's and the model's
  std::string augment = "none";
  std::int64_t epochs = 15;
  std::int64_t batch_size = 32;  // of one rank
  std::string optimizer = "sgd";
  double lr = 0.05;
  double momentum = 0.9;
  double weight_decay = 0;
  std::string schedule = "none";
  std::int64_t warmup_epochs = 0;
  std::int64_t step_epochs = 0;  // 0: a third of the epochs
  double gamma = 0.1;
  double label_smoothing = 0;
  double clip_norm = 0;  // 0: gradients are not clipped
  double ema = 0;        // 0: no moving average
  std::uint64_t seed = 42;
  int threads = 0;  // 0: as OpenMP has it
  int workers = 1;  // threads that read data
  std::string save{};
  std::string load{};
  std::string checkpoint_dir{};         // empty: no checkpoints
  std::int64_t checkpoint_every = 100;  // steps
  int keep = 3;                         // checkpoints
  bool resume = false;
  std::int64_t eval_every = 0;  // epochs; 0: at the end only
  std::int64_t log_every = 10;  // steps
  std::string amp = "off";      // bf16 or f16: mixed precision
  std::string device = "cpu";   // cpu, cuda (dlrun's choice for this rank) or cuda:N
  bool compiles = false;        // repeat steps as a tape or a CUDA graph
  bool json = false;
  bool profile = false;       // show what the steps of training consist of
  std::string profile_dir{};  // folder of their traces; empty: no traces
};

struct Program {
  std::string_view name;
  std::string_view about;  // a sentence for --help
  Options defaults{};
};

// The options, or the exit code of a program that has nothing more to do: 0 after --help and
// --version, 2 after one sentence on stderr about what was wrong.
std::variant<Options, int> parse_options(const Program& program, int argc, const char* const* argv);

}  // namespace dl::examples
