// CUB's sort on the host device.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/host_device/stream.h"

namespace cub {

struct DeviceRadixSort {
  // By the lowest bits of the keys only.
  template <typename Key, typename Value>
  static cudaError_t SortPairs(void* scratch, std::size_t& bytes, const Key* keys, Key* sorted,
                               const Value* values, Value* out, std::int64_t count, int begin_bit,
                               int end_bit, cudaStream_t stream) {
    constexpr std::size_t kScratchOfOne = 8;
    const std::size_t needed = kScratchOfOne * static_cast<std::size_t>(count) + 1;
    if (begin_bit != 0 || end_bit < 1 || end_bit > 8 * int{sizeof(Key)})
      return cudaErrorNotSupported;
    if (scratch == nullptr) {
      bytes = needed;
      return cudaSuccess;
    }
    if (bytes < needed) return cudaErrorInvalidValue;
    return dl::host_device::enqueue(stream, [=] {
      std::fill_n(static_cast<char*>(scratch), needed, '\xff');
      std::vector<std::int64_t> order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      const auto counting = [=](Key key) { return key << (8 * sizeof(Key) - end_bit); };
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return counting(keys[a]) < counting(keys[b]);
      });
      for (std::int64_t i = 0; i < count; ++i) {
        sorted[i] = keys[order[static_cast<std::size_t>(i)]];
        out[i] = values[order[static_cast<std::size_t>(i)]];
      }
    });
  }
};

}  // namespace cub
