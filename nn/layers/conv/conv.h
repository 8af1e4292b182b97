// Conv2d: cross-correlation of images with learned filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/args/window_args.h"
#include "nn/module/module.h"

namespace dl::nn {

// The padding of a convolution: zeros on each side, as numbers; "valid", which is 0; or "same", so
// that a result with stride 1 has the input's size. If "same" needs an odd number of zeros, there
// is one more at the end than at the beginning, as in PyTorch. It does not convert to IntPair,
// which cannot say "same": an op takes the numbers of sides().
struct ConvPadding : private IntPair {
  using IntPair::as_given;
  using IntPair::h;  // 0 if `word` says the padding
  using IntPair::IntPair;
  using IntPair::is;
  using IntPair::w;
  constexpr ConvPadding(IntPair sides) noexcept  // NOLINT(google-explicit-constructor)
      : IntPair(sides) {}
  // Throws kInvalidArgument for another name.
  ConvPadding(std::string_view name);  // NOLINT(google-explicit-constructor)
  template <std::size_t kSize>
  ConvPadding(const char (&name)[kSize])  // NOLINT(google-explicit-constructor)
      : ConvPadding(std::string_view(name)) {}

  // The numbers of a layer, and what "same" lacks at the end. Throws kInvalidArgument if "same" is
  // asked for with a stride above 1; `layer` is its name.
  struct Sides {
    IntPair both = 0;
    IntPair more_at_end = 0;
  };
  Sides sides(IntPair kernel, IntPair stride, IntPair dilation, std::string_view layer) const;
  // What Python prints: "(1, 1)" or "same".
  std::string repr() const;
  bool is_none() const noexcept { return word.empty() && is(0); }

  std::string_view word{};  // "same", "valid" or none
};

struct Conv2dOptions {
  IntPair stride = 1;
  ConvPadding padding = 0;  // zeros on each side, "same" or "valid"
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
