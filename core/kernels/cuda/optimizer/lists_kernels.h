// Gradient clipping and averages of weights over lists of tensors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/args/optimizer_args.h"
#include "core/kernels/cuda/common/tensor_list.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Pointers: gradient. Mark: its dtype. Writes a part of the norm for each block.
void norm_parts_launch(const TensorList<1>& list, int blocks, double p, double* parts,
                       cudaStream_t stream);
// The norm, of `dtype`, from its parts.
void norm_launch(const double* parts, std::int64_t count, double p, void* norm, DType dtype,
                 cudaStream_t stream);
void clip_norm_launch(const TensorList<1>& list, int blocks, double max_norm, const void* norm,
                      DType norm_dtype, cudaStream_t stream);
void clip_value_launch(const TensorList<1>& list, int blocks, double bound, cudaStream_t stream);

// Pointers: average, value. Mark: their dtype.
void average_launch(const TensorList<2>& list, int blocks, const std::int64_t* count,
                    const AverageStep& step, cudaStream_t stream);
// Pointers: destination, source. Mark: bytes of an element.
void copy_list_launch(const TensorList<2>& list, int blocks, cudaStream_t stream);

}  // namespace dl::kernels::cuda
