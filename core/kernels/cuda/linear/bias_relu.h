// y[r][c] = relu(y[r][c] + bias[c]) on row-major memory: the pass after a product or a convolution
// if the library does not fuse it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// `bias` may be null.
void bias_relu_launch(DType dtype, void* y, const void* bias, bool relu, std::int64_t rows,
                      std::int64_t columns, cudaStream_t stream);

// Also writes the ReLU's mask: bit c % 8 of byte c / 8 of row r is set if y[r][c]'s gradient
// passes. Its rows have relu_mask_row_bytes(columns) bytes. Not for f64.
void bias_relu_mask_launch(DType dtype, void* y, const void* bias, void* mask, std::int64_t rows,
                           std::int64_t columns, cudaStream_t stream);

}  // namespace dl::kernels::cuda
