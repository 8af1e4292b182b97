// Gathering, scattering and masking on plain memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/kernels/cuda/runtime/fault.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// A contiguous array viewed as [outer, size, inner] around the indexed dimension.
struct IndexArgs {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
  const std::int64_t* index = nullptr;
  std::int64_t count = 0;  // of the index
};
// out[block][i] = in[block][index[i]]; an index out of range is reported and gives zeros.
void index_select_launch(const IndexArgs& args, std::size_t width, const void* in, void* out,
                         dl::cuda::FaultPlace fault, cudaStream_t stream);
// out[block][index[i]] += grad[block][i], in the order of i.
void index_add_launch(const IndexArgs& args, DType dtype, const void* grad, void* out,
                      cudaStream_t stream);
void mask_scale_launch(DType dtype, const void* in, const bool* mask, double scale, void* out,
                       std::int64_t count, cudaStream_t stream);

}  // namespace dl::kernels::cuda
