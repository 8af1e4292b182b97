// Conv1d, over the kernels of Conv2d, and ConvTranspose2d.
#pragma once

#include <cstdint>
#include <string>

#include "core/args/window_args.h"
#include "nn/layers/conv/conv.h"
#include "nn/module/module.h"

namespace dl::nn {

struct Conv1dOptions {
  std::int64_t stride = 1;
  ConvPadding padding = 0;  // zeros on each side, "same" or "valid"
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::kF32;
};

class Conv1d : public Module {
 public:
  // Throws kInvalidArgument unless sizes are positive and groups divides both channels.
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         Conv1dOptions options = {});

  // input [N, in_channels, L] -> [N, out_channels, L'], or both without N
  Tensor forward(const Tensor& input) override;
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t kernel_size;
  Conv1dOptions options;
  Tensor& weight;  // [out_channels, in_channels / groups, kernel_size]
  Tensor& bias;    // [out_channels], undefined with bias = false
};

struct ConvTranspose2dOptions {
  IntPair stride = 1;
  IntPair padding = 0;         // removed from each side of the result
  IntPair output_padding = 0;  // added at the end of the result; less than the stride
  std::int64_t groups = 1;
  bool bias = true;
  IntPair dilation = 1;
  DType dtype = DType::kF32;
};

class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
                  ConvTranspose2dOptions options = {});

  // input [N, in_channels, H, W] -> [N, out_channels, H', W'], or both without N;
  // core/ops/conv/conv.h has the sizes.
  Tensor forward(const Tensor& input) override;
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t in_channels;
  std::int64_t out_channels;
  IntPair kernel_size;
  ConvTranspose2dOptions options;
  Tensor& weight;  // [in_channels, out_channels / groups, kernel.h, kernel.w]
  Tensor& bias;
};

namespace functional {
// input [N, C, L] or [C, L], weight [out, C / groups, k], bias [out] or undefined -> [.., out, L']
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
// weight [C, out / groups, kh, kw]
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});
}  // namespace functional

}  // namespace dl::nn
