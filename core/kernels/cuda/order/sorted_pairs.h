// SortedPairs: keys, the numbers beside them, and the memory of their sort.
#pragma once

#include <cstdint>

#include "core/kernels/cuda/order/order_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {

class SortedPairs {
 public:
  SortedPairs(std::int64_t count, cudaStream_t stream)
      : count_(count),
        stream_(stream),
        keys_(bytes(), stream),
        numbers_(bytes(), stream),
        sorted_keys_(bytes(), stream),
        sorted_numbers_(bytes(), stream) {}

  // A kernel fills these before run().
  std::uint64_t* keys() const { return keys_.as<std::uint64_t>(); }
  std::int64_t* numbers() const { return numbers_.as<std::int64_t>(); }
  // By the lowest `bits` bits of the keys. The numbers go to `out` instead of sorted_numbers(), if
  // it is not null.
  void run(int bits, std::int64_t* out = nullptr) const {
    std::int64_t* const numbers = out != nullptr ? out : sorted_numbers();
    std::size_t needed = 0;
    DL_CUDA_CHECK(sort_pairs(nullptr, needed, keys(), sorted_keys(), this->numbers(), numbers,
                             count_, bits, stream_));
    const Workspace scratch(needed, stream_);
    DL_CUDA_CHECK(sort_pairs(scratch.data(), needed, keys(), sorted_keys(), this->numbers(),
                             numbers, count_, bits, stream_));
  }
  std::uint64_t* sorted_keys() const { return sorted_keys_.as<std::uint64_t>(); }
  std::int64_t* sorted_numbers() const { return sorted_numbers_.as<std::int64_t>(); }

 private:
  std::size_t bytes() const { return 8 * static_cast<std::size_t>(count_); }

  std::int64_t count_;
  cudaStream_t stream_;
  Workspace keys_, numbers_, sorted_keys_, sorted_numbers_;
};

}  // namespace dl::kernels::cuda
