// One convolution in one direction by cuDNN, planned once for each shape. The memory order of
// images is [n][h][w][c], of weights [c_out][kh][kw][c_in / groups].
//
// It uses cuDNN's convolution functions, not its graph API. cuDNN 9 marks the functions as
// deprecated, but has all of them and guarantees compatibility with every later 9.x; the version is
// checked when the module is opened. They list their algorithms, with the memory of each and
// whether it is deterministic. The graph API gives this only after building each engine. Graphs
// could fuse bias and ReLU and use engines compiled at run time; measure the gain on a GPU before
// using them.
#pragma once

#include <cstdint>

#include "core/kernels/cuda/conv/conv2d_direct.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

enum class ConvDirection : std::int32_t { kForward, kBackwardData, kBackwardWeight };

// Reads `first` and `second` (x and weight, dy and weight, or x and dy) and writes `result`. False,
// with one log line for each shape, if no algorithm of cuDNN runs.
bool cudnn_conv(ConvDirection direction, const ConvShape& shape, DType dtype, const void* first,
                const void* second, void* result, const Launch& launch);

}  // namespace dl::kernels::cuda
