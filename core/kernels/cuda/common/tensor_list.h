// Many tensors in one launch: lists of pointers that are passed as a kernel argument, so that
// nothing is copied to the device first and the launch can be captured.
//
// Tensors are divided into chunks, one for each block; a launch has as many tensors as fit into its
// argument.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::kernels::cuda {

inline constexpr std::int64_t kChunk = 64 * 1024;  // elements of a block
inline constexpr int kListTensors = 36;
inline constexpr int kListBlocks = 320;

template <int kPointers>
struct TensorList {
  void* pointers[kListTensors][kPointers];
  std::int64_t sizes[kListTensors];
  std::uint8_t marks[kListTensors];  // of each tensor; the meaning depends on the kernel
  std::uint8_t tensor_of[kListBlocks];
  std::int32_t chunk_of[kListBlocks];
};
static_assert(sizeof(TensorList<6>) < 4096 - 256, "kernels have 4 KiB of arguments");

#if defined(__CUDACC__)
// The chunk of a block: a tensor, and its elements from `begin` to `end`.
struct Chunk {
  int tensor;
  std::int64_t begin, end;
};

template <int kPointers>
__device__ Chunk chunk_of(const TensorList<kPointers>& list) {
  const int tensor = list.tensor_of[blockIdx.x];
  const std::int64_t begin = list.chunk_of[blockIdx.x] * kChunk;
  return {tensor, begin, min(begin + kChunk, list.sizes[tensor])};
}
#endif

// Calls launch(list, blocks, tensors) for as many lists as needed. add(list, slot, i) fills in
// tensor i's pointers, sizes and mark; size_of(i) returns its size.
template <int kPointers, typename SizeOf, typename Add, typename Launch>
void for_each_list(std::size_t count, const SizeOf& size_of, const Add& add, const Launch& launch) {
  TensorList<kPointers> list;
  int tensors = 0;
  int blocks = 0;
  const auto flush = [&] {
    if (blocks > 0) launch(list, blocks, tensors);
    tensors = 0;
    blocks = 0;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t size = size_of(i);
    const std::int64_t chunks = (size + kChunk - 1) / kChunk;
    bool listed = false;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (blocks == kListBlocks || (!listed && tensors == kListTensors)) {
        flush();
        listed = false;
      }
      if (!listed) {
        list.sizes[tensors] = size;
        list.marks[tensors] = 0;
        add(list, tensors, i);
        ++tensors;
        listed = true;
      }
      list.tensor_of[blocks] = static_cast<std::uint8_t>(tensors - 1);
      list.chunk_of[blocks] = static_cast<std::int32_t>(chunk);
      ++blocks;
    }
  }
  flush();
}

}  // namespace dl::kernels::cuda
