// Gathering and scattering of single elements on plain memory: declared/index.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/args/index_args.h"
#include "core/kernels/cuda/common/offsets.h"
#include "core/kernels/cuda/runtime/fault.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Sort keys are the offsets of elements, and no device has so many: 2^40 bytes are a terabyte.
inline constexpr int kPlaceBits = 40;
// The key of an element whose index is out of range.
inline constexpr std::uint64_t kNoPlace = (std::uint64_t{1} << kPlaceBits) - 1;

// What a kernel knows of an index: a part of core/args/index_args.h.
struct IndexRange {
  std::int64_t size = 0;
  std::int64_t step = 1;
  bool from_end = false;
  bool is_checked = false;
};

// map: offsets, index.
void add_offsets_launch(const IndexRange& by, const std::int64_t* index, std::int64_t* offsets,
                        const OffsetMap<2>& map, dl::cuda::FaultPlace fault, cudaStream_t stream);
// map: out, index, source. A stray index is reported and gives zeros.
void gather_launch(const IndexRange& by, std::size_t width, const void* source,
                   const std::int64_t* index, void* out, const OffsetMap<3>& map,
                   dl::cuda::FaultPlace fault, cudaStream_t stream);
// map: target, index. The key of each element is the offset of its target; the number is its own.
void scatter_keys_launch(const IndexRange& by, const std::int64_t* index, std::uint64_t* keys,
                         std::int64_t* numbers, const OffsetMap<2>& map, dl::cuda::FaultPlace fault,
                         cudaStream_t stream);
// For each run of equal keys, one thread combines the run's elements in their order.
struct ScatterArgs {
  ScatterMode how{};
  DType dtype = DType::kF32;
  const std::uint64_t* keys = nullptr;    // sorted
  const std::int64_t* numbers = nullptr;  // beside them
  void* target = nullptr;
  const void* source = nullptr;
  OffsetMap<1> map;  // source
};
void scatter_launch(const ScatterArgs& args, cudaStream_t stream);

}  // namespace dl::kernels::cuda
