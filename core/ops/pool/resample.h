// Average pooling, and resizing of images.
//
// Images are floating [N, C, H, W], for average pooling also [C, H, W]. Results have the memory
// layout of a convolution's (conv.h). Throws kShape, kDType and kInvalidArgument. There is no CUDA
// kernel yet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/args/window_args.h"
#include "core/tensor/tensor.h"

namespace dl {

struct AvgPool2dArgs {
  IntPair kernel = 1;
  IntPair stride = 1;
  IntPair padding = 0;  // zeros on each side; at most half the window
  bool ceil_mode = false;
  bool count_include_pad = true;                      // padding counts in the mean
  std::optional<std::int64_t> divisor_override = {};  // replaces the window's size
};
Tensor avg_pool2d(const Tensor& input, const AvgPool2dArgs& args);

// Means of windows that divide the image into `size` cells; a size of 0 means the input's size. An
// input element may be in two windows, as in PyTorch.
Tensor adaptive_avg_pool2d(const Tensor& input, const IntPair& size);

enum class UpsampleMode : std::uint8_t { kNearest, kBilinear };
struct UpsampleArgs {
  IntPair size = 1;
  // The scale factors from which the size was computed; 0: the ratio of the sizes.
  std::array<double, 2> factors{0, 0};
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;  // kBilinear: corner pixels map to corner pixels
};
Tensor upsample2d(const Tensor& input, const UpsampleArgs& args);

}  // namespace dl
