// One size of one operation, timed: rewrite the input, barrier, start, operation, stop. An
// iteration's time is its slowest rank's. Collective: every rank calls it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "collectives/bench/options.h"
#include "collectives/process_group.h"

namespace dl::collectives::bench {

struct Result {
  std::size_t bytes = 0;  // nccl-tests' size: the larger of input and output
  std::size_t count = 0;  // elements of that
  bool in_place = false;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double rewrite_us = 0;  // p50 of the input's rewriting, on this rank
  double algbw = 0;       // GB/s
  double busbw = 0;
  std::size_t wrong = 0;  // elements, of all ranks
};

Result measure(ProcessGroup& group, const Options& options, std::size_t bytes, bool in_place);

// The algorithm that such an operation takes: "ring", "direct", ...
std::string_view algorithm_of(const Options& options, const Result& result, int size);

}  // namespace dl::collectives::bench
