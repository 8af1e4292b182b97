// One convolution in one direction by cuDNN, planned once a shape. Images lie [n][h][w][c], weights
// [c_out][kh][kw][c_in / groups].
//
// By cuDNN's convolution functions, not by its graphs. cuDNN 9 marks them as deprecated, but has
// all of them and promises that programs built with them run with every later 9; the version is
// checked when the module is opened. They name their algorithms and say of each whether it is
// deterministic and what memory it wants, which is what a plan needs here; of a graph's engines one
// learns the same, by building each. Graphs would add bias and ReLU in the convolution's last pass
// and reach engines that are compiled at run time: what that is worth is to be measured on a GPU
// before they are built.
#pragma once

#include <cstdint>

#include "core/kernels/cuda/conv/conv2d_direct.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

enum class ConvDirection : std::int32_t { kForward, kBackwardData, kBackwardWeight };

// `first` and `second` are read: x and weight, dy and weight, or x and dy; `result` is written.
// False, with one line in the log a shape, where cuDNN has no deterministic algorithm that runs.
bool cudnn_conv(ConvDirection direction, const ConvShape& shape, DType dtype, const void* first,
                const void* second, void* result, const Launch& launch);

}  // namespace dl::kernels::cuda
