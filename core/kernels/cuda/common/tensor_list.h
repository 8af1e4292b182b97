// Many tensors in one launch: lists of pointers that are passed as a kernel argument, so that
// nothing is copied to the device first and the launch can be captured.
//
// Tensors are divided into chunks, one for each block; a launch has as many tensors as fit into its
// argument.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include "core/kernels/cuda/common/row_packs.h"
#endif

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

// Replaces each element x of the block's chunk by change(x), which is computed as load_as() loads
// it. change() is also called for elements that are not in the chunk, as 0. Marks: the dtypes.
template <typename Change>
__device__ void change_chunk(const TensorList<1>& list, const Change& change) {
  const Chunk chunk = chunk_of(list);
  const auto dtype = static_cast<DType>(list.marks[chunk.tensor]);
  void* const data = list.pointers[chunk.tensor][0];
  const auto change_as = [&]<typename M>() {
    packs_of<M>(data, dtype, chunk.begin, chunk.end - chunk.begin)
        .for_each(Lines{}, [&](const auto& pack) {
          M values[pack.kCount];
          pack.load(data, dtype, chunk.begin, values);
          for (M& value : values) value = change(value);
          pack.store(data, dtype, chunk.begin, values);
        });
  };
  dtype == DType::kF64 ? change_as.template operator()<double>()
                       : change_as.template operator()<float>();
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

// Calls launch(list, blocks) for tensors, whose mark is their dtype.
template <typename Tensors, typename Launch>
void for_each_list_of(const Tensors& tensors, const Launch& launch) {
  for_each_list<1>(
      tensors.size(), [&](std::size_t i) { return tensors[i].numel(); },
      [&](TensorList<1>& list, int slot, std::size_t i) {
        list.pointers[slot][0] = tensors[i].data_ptr();
        list.marks[slot] = static_cast<std::uint8_t>(tensors[i].dtype());
      },
      [&](const TensorList<1>& list, int blocks, int) { launch(list, blocks); });
}

}  // namespace dl::kernels::cuda
