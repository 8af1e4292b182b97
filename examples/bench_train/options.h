// What bench_train is told on its command line: the flags of PyTorch's counterpart, as far as they
// mean something here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/bench_train/works.h"

namespace bench_train {

struct Options {
  Work work;
  std::int64_t batch;  // of one rank
  int threads;
  std::string device;  // cpu, cuda or cuda:N
  std::string mode;    // eager, compile or captured
  std::string dtype;   // f32, or what autocast computes in
  bool matmul_tf32;
  bool conv_tf32;
  bool benchmark;  // cuDNN times its algorithms
  bool channels_last;
  std::string optim;
  int warmup;
  int steps;
  int per_sync;  // steps between two waits for the GPU
  bool no_sync;
  bool profile;
  bool losses;  // print the loss of each step, and no times
  std::uint64_t seed;
  bool json;
};

// Nothing if the program has to end with `exit_code`: after --help, or a bad argument, whose text
// is then on stderr.
std::optional<Options> parse(int argc, char** argv, int& exit_code);

}  // namespace bench_train
