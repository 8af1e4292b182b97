// Convolution and max pooling of images [N, C, H, W], or [C, H, W] without a batch: the result then
// has no batch either.
//
// Both compute on channels-last memory: an input of another layout is copied once. The results have
// PyTorch's strides. If these are row-major, the elements stay channels-last until their memory is
// accessed (core/tensor/layout/deferred.h): in a network, from its first convolution to its
// flatten(). Thread-safety: as for every operation, one thread at a time uses
// a graph.
#pragma once

#include "core/args/window_args.h"
#include "core/tensor/tensor.h"

namespace dl {

// Cross-correlation with learned filters.
//   input   [N, C, H, W] floating
//   weight  [O, C / groups, kh, kw]
//   bias    [O], or undefined
// Returns [N, O, H', W'] with H' = floor((H + 2 padding - dilation (kh - 1) - 1) / stride) + 1.
// Throws kShape, kDType and kInvalidArgument.
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv2dArgs& args = {});

struct ConvTranspose2dArgs {
  IntPair stride = 1;
  IntPair padding = 0;         // removed from each side of the result
  IntPair output_padding = 0;  // added at the end of the result; smaller than stride or dilation
  IntPair dilation = 1;
  std::int64_t groups = 1;
};

// The gradient of a convolution with respect to its input, as an operation: each input element adds
// its multiple of the filters to the result.
//   input   [N, C, H, W] floating
//   weight  [C, O / groups, kh, kw]
//   bias    [O], or undefined
// Returns [N, O, H', W'] with
// H' = (H - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1.
// Throws kShape, kDType and kInvalidArgument.
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dArgs& args = {});

// The largest element of each window; the gradient goes to the first of equal ones, as in PyTorch.
//   input   [N, C, H, W] floating
// Returns [N, C, H', W'] with H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1,
// rounded up with ceil_mode. Throws kShape, kDType and kInvalidArgument.
Tensor max_pool2d(const Tensor& input, const MaxPool2dArgs& args);

}  // namespace dl
