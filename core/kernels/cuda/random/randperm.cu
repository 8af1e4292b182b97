#include <cub/device/device_radix_sort.cuh>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/random/random_kernels.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Each thread writes two numbers and their keys.
__global__ void __launch_bounds__(kThreads)
    keys_kernel(std::uint64_t* keys, std::int64_t* numbers, std::int64_t count,
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

// Sorts by all 64 bits; equal keys keep their order.
cudaError_t sort(void* scratch, std::size_t& bytes, const std::uint64_t* keys,
                 std::uint64_t* sorted, const std::int64_t* numbers, std::int64_t* out,
                 std::int64_t count, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted, numbers, out, count, 0, 64,
                                         stream);
}

}  // namespace

cudaError_t randperm_memory(std::int64_t count, PermutationMemory& memory) {
  const cudaError_t status =
      sort(nullptr, memory.of_sort, nullptr, nullptr, nullptr, nullptr, count, nullptr);
  memory.bytes = 3 * rounded_up(8 * static_cast<std::size_t>(count)) + memory.of_sort;
  return status;
}

cudaError_t randperm_launch(const PermutationMemory& memory, void* scratch, std::int64_t* out,
                            std::int64_t count, const random::PhiloxSeed& seed,
                            cudaStream_t stream) {
  const std::size_t step = rounded_up(8 * static_cast<std::size_t>(count));
  char* const base = static_cast<char*>(scratch);
  auto* const keys = reinterpret_cast<std::uint64_t*>(base);
  auto* const sorted = reinterpret_cast<std::uint64_t*>(base + step);
  auto* const numbers = reinterpret_cast<std::int64_t*>(base + 2 * step);
  keys_kernel<<<blocks_for((count + 1) / 2), kThreads, 0, stream>>>(keys, numbers, count, seed);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  std::size_t of_sort = memory.of_sort;
  return sort(base + 3 * step, of_sort, keys, sorted, numbers, out, count, stream);
}

}  // namespace dl::kernels::cuda
