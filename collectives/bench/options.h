// dlbench's command line: nccl-tests' flags, as far as they mean something here.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "collectives/descriptor.h"

namespace dl::collectives::bench {

struct Options {
  OpKind op = OpKind::kAllReduce;
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t step_factor = 4;
  std::size_t step_bytes = 0;  // where not zero: steps are added, not multiplied
  std::size_t iterations = 0;  // 0: by size, at least 25
  std::size_t warmup = 3;
  bool check = true;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  std::string backend = "auto";
  std::chrono::seconds timeout{600};
  bool json = false;
};

// Prints help or a sentence and returns the exit code where the program is to end at once.
std::optional<int> parse(int argc, char** argv, Options& options);

// The size after this one; 0 after the last.
std::size_t next_size(const Options& options, std::size_t bytes) noexcept;
std::size_t iterations_for(const Options& options, std::size_t bytes) noexcept;

}  // namespace dl::collectives::bench
