// One convolution in one direction by cuDNN, planned once a shape. Images lie [n][h][w][c], weights
// [c_out][kh][kw][c_in / groups].
#pragma once

#include <cstdint>

#include "core/kernels/cuda/conv2d_direct.h"
#include "core/kernels/cuda/launch.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

enum class ConvDirection : std::int32_t { kForward, kBackwardData, kBackwardWeight };

// `first` and `second` are read: x and weight, dy and weight, or x and dy; `result` is written.
// False, with one line in the log a shape, where cuDNN has no deterministic algorithm.
bool cudnn_conv(ConvDirection direction, const ConvShape& shape, DType dtype, const void* first,
                const void* second, void* result, const Launch& launch);

}  // namespace dl::kernels::cuda
