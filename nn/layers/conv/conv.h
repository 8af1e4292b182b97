// Conv2d: cross-correlation of images with learned filters.
#pragma once

#include <cstdint>
#include <string>

#include "core/args/window_args.h"
#include "nn/module/module.h"

namespace dl::nn {

struct Conv2dOptions {
  IntPair stride = 1;
  IntPair padding = 0;  // zeros on each side
  IntPair dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::kF32;
};

class Conv2d : public Module {
 public:
  // Throws kInvalidArgument unless sizes are positive and groups divides both channels.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
         Conv2dOptions options = {});

  // input [N, in_channels, H, W] -> [N, out_channels, H', W'], or both without N, with
  // H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1
  Tensor forward(const Tensor& input) override;
  // Fuses a ReLU after it.
  bool can_fuse(const Fusion& fusion) const override;
  Tensor forward_fused(const Tensor& input, const Fusion& fusion) override;
  // Draws new initial values, as PyTorch draws them.
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t in_channels;
  std::int64_t out_channels;
  IntPair kernel_size;
  Conv2dOptions options;
  Tensor& weight;  // [out_channels, in_channels / groups, kernel.h, kernel.w]
  Tensor& bias;    // [out_channels], undefined with bias = false
};

}  // namespace dl::nn
