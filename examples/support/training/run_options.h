// What programs that train have in common, as a user types it. Each program has these options
// beside its own.
#pragma once

#include <cstdint>
#include <string>

namespace dl::examples {

// The defaults are train_cnn's.
struct RunOptions {
  std::string program = "train_cnn";
  std::int64_t epochs = 15;
  std::int64_t batch_size = 32;  // of one rank, in one pass through the model
  std::string optimizer = "sgd";
  double lr = 0.05;
  double momentum = 0.9;
  double weight_decay = 0;
  std::string schedule = "none";
  double clip_norm = 0;  // 0: gradients are not clipped
  std::uint64_t seed = 42;
  int threads = 0;  // 0: as OpenMP has it
  int workers = 1;  // threads that read data
  std::string save{};
  std::string load{};
  std::string checkpoint_dir{};         // empty: no checkpoints
  std::int64_t checkpoint_every = 100;  // steps
  int keep = 3;                         // checkpoints
  bool resume = false;
  std::int64_t log_every = 10;  // steps
  std::string amp = "off";      // bf16 or f16: mixed precision
  std::string device = "cpu";   // cpu, cuda (dlrun's choice for this rank) or cuda:N
  bool compiles = false;        // repeat steps as a tape or a CUDA graph
  bool json = false;
  bool profile = false;       // show what the steps of training consist of
  std::string profile_dir{};  // folder of their traces; empty: no traces
};

}  // namespace dl::examples
