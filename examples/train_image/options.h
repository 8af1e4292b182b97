// The command line of train_cnn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace dl::examples {

struct Options {
  std::string dataset = "digits";  // digits, mnist, fashion-mnist or cifar10
  std::string data_dir;            // empty: the digits that come with dlrun
  std::int64_t epochs = 15;
  std::int64_t batch_size = 32;  // of one rank
  double lr = 0.05;
  double momentum = 0.9;
  std::uint64_t seed = 42;
  int threads = 0;  // 0: as OpenMP has it
  int workers = 1;  // threads that read data
  std::string save;
  std::string load;
  std::string checkpoint_dir;           // empty: no checkpoints
  std::int64_t checkpoint_every = 100;  // steps
  int keep = 3;                         // checkpoints
  bool resume = false;
  std::int64_t log_every = 10;  // steps
  std::string amp = "off";      // bf16 or f16: mixed precision
  std::string device = "cpu";   // cpu, cuda (dlrun's choice for this rank) or cuda:N
  bool compiles = false;        // repeat steps as a tape or a CUDA graph
  bool json = false;
  bool profile = false;     // show what the steps of training consist of
  std::string profile_dir;  // folder of their traces; empty: no traces
};

// The options, or the exit code of a program that has nothing more to do: 0 after --help and
// --version, 2 after one sentence on stderr about what was wrong.
std::variant<Options, int> parse_options(int argc, const char* const* argv);

}  // namespace dl::examples
