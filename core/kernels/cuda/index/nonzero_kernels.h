// The indices of the true elements of a mask: declared/index.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dl::kernels::cuda {

struct NonzeroArgs {
  static constexpr int kMostDims = 24;

  const bool* mask = nullptr;  // contiguous
  std::int64_t count = 0;      // of its elements
  int dims = 0;
  std::int64_t sizes[kMostDims] = {};
};
// The blocks of both launches.
unsigned nonzero_blocks(std::int64_t count);
// How many are true in the part of each block.
void count_true_launch(const NonzeroArgs& args, std::int64_t* counts, cudaStream_t stream);
// totals: the sums of the counts up to and with each block. out [true elements, dims].
void nonzero_launch(const NonzeroArgs& args, const std::int64_t* totals, std::int64_t* out,
                    cudaStream_t stream);

}  // namespace dl::kernels::cuda
