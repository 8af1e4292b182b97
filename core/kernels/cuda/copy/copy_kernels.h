// Copies, conversions and filling on plain memory; copy.cc chooses among them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/kernels/cuda/common/offsets.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Copies elements of `width` bytes (1, 2, 4 or 8) unchanged. Operands of `map`: to, from.
void copy_strided(std::size_t width, const void* from, void* to, const OffsetMap<2>& map,
                  cudaStream_t stream);
// Converts between f32 and f16 or bf16 in the same layout. False for other pairs, and if a pointer
// is not aligned.
bool convert_flat(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count,
                  cudaStream_t stream);
// Converts between any two dtypes, like dl::detail::convert.
void convert_strided(const void* from, DType from_dtype, void* to, DType to_dtype,
                     const OffsetMap<2>& map, cudaStream_t stream);
// The low `width` bytes of `element` are the element.
void fill_strided(std::size_t width, std::uint64_t element, void* to, const OffsetMap<1>& map,
                  cudaStream_t stream);
// out[... + index[...] * step] = grad[...]. Operands of `map`: out, grad, index; `width` as above.
void scatter_strided(std::size_t width, const void* grad, const std::int64_t* index,
                     std::int64_t step, void* out, const OffsetMap<3>& map, cudaStream_t stream);

}  // namespace dl::kernels::cuda
