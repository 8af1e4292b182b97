// Sorting and cumulative sums on plain memory: declared/order.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/kernels/cuda/common/offsets.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Sorts pairs by the lowest `bits` bits of their keys; equal keys keep their order. With null
// scratch it only writes how many bytes it needs.
cudaError_t sort_pairs(void* scratch, std::size_t& bytes, const std::uint64_t* keys,
                       std::uint64_t* sorted, const std::int64_t* numbers, std::int64_t* out,
                       std::int64_t count, int bits, cudaStream_t stream);

// The lines of a tensor along a dimension. For 8-byte elements, the bits that a key has no room for
// are sorted first, in a sort of their own.
struct SortLines {
  DType dtype = DType::kF32;
  bool descending = false;
  std::int64_t size = 0;  // of a line
  std::int64_t step = 0;  // from one element to the next
  OffsetMap<2> lines;     // values, in: in the same order as in TakeArgs
};
inline constexpr int kKeyBits = 32;  // of an element of at most 4 bytes

// Writes the keys of all elements, line after line, which order like the elements, and numbers
// them. Elements of at most 4 bytes: line << 32 | key; of 8 bytes: the key.
void element_keys_launch(const SortLines& args, const void* in, std::uint64_t* keys,
                         std::int64_t* numbers, cudaStream_t stream);
// keys[i] = the line of numbers[i].
void line_keys_launch(const std::int64_t* numbers, std::int64_t count, std::int64_t size,
                      std::uint64_t* keys, cudaStream_t stream);

// The first `wanted` elements of each sorted line, and their indices. numbers: the elements in the
// order of the sort.
struct TakeArgs {
  DType dtype = DType::kF32;
  std::int64_t size = 0;  // of a line
  std::int64_t wanted = 0;
  std::int64_t step = 0, value_step = 0, index_step = 0;
  OffsetMap<3> lines;  // values, indices, in
  const void* in = nullptr;
  void* values = nullptr;
  std::int64_t* indices = nullptr;
};
void take_first_launch(const TakeArgs& args, const std::int64_t* numbers, cudaStream_t stream);
// The lower median of each line, of which one element is wanted. Lines are sorted in ascending
// order, so that NaNs come last.
void take_median_launch(const TakeArgs& args, const std::int64_t* numbers, bool ignore_nan,
                        cudaStream_t stream);

enum class Running : std::uint8_t { kSum, kProduct };
struct RunningArgs {
  Running how{};
  DType dtype = DType::kF32, out_dtype = DType::kF32;
  std::int64_t size = 0;  // of a line
  std::int64_t step = 0, out_step = 0;
  bool reverse = false;
  OffsetMap<2> lines;  // out, in
};
void running_launch(const RunningArgs& args, const void* in, void* out, cudaStream_t stream);

struct ProductGradientArgs {
  DType dtype = DType::kF32, grad_dtype = DType::kF32;
  std::int64_t size = 0;
  std::int64_t step = 0, grad_step = 0, out_step = 0;
  OffsetMap<3> lines;  // out, in, grad
};
// sums: a double for each element, line after line.
void product_gradient_launch(const ProductGradientArgs& args, const void* grad, const void* in,
                             double* sums, void* out, cudaStream_t stream);

}  // namespace dl::kernels::cuda
