#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/random/random_kernels.h"

namespace dl::kernels::cuda {
namespace {

// Each thread writes two numbers and their keys.
__global__ void __launch_bounds__(kThreads)
    permutation_kernel(std::uint64_t* keys, std::int64_t* numbers, std::int64_t count,
                       random::PhiloxSeed seed) {
  const std::int64_t block = thread_number();
  const std::int64_t first = 2 * block;
  if (first >= count) return;
  const random::PhiloxWords words = random::philox_block(seed, static_cast<std::uint64_t>(block));
  for (int i = 0; i < 2 && first + i < count; ++i) {
    keys[first + i] = random::word64(words, i);
    numbers[first + i] = first + i;
  }
}

}  // namespace

void permutation_keys_launch(std::uint64_t* keys, std::int64_t* numbers, std::int64_t count,
                             const random::PhiloxSeed& seed, cudaStream_t stream) {
  permutation_kernel<<<blocks_for((count + 1) / 2), kThreads, 0, stream>>>(keys, numbers, count,
                                                                           seed);
}

}  // namespace dl::kernels::cuda
