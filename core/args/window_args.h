// Arguments of convolution and pooling other than tensors: how a window moves over an image.
// Aggregates, for designated initialisers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dl {

// One number for both directions of an image, or {height, width}. It remembers which form was
// given, because PyTorch prints the arguments of some modules that way.
struct IntPair {
  constexpr IntPair(std::int64_t both) noexcept  // NOLINT(google-explicit-constructor)
      : h(both), w(both), one_number(true) {}
  constexpr IntPair(std::int64_t height, std::int64_t width) noexcept : h(height), w(width) {}

  constexpr std::int64_t& operator[](std::size_t d) noexcept { return d == 0 ? h : w; }
  constexpr std::int64_t operator[](std::size_t d) const noexcept { return d == 0 ? h : w; }
  constexpr bool is(std::int64_t both) const noexcept { return h == both && w == both; }
  // Used by core/ops: "(3, 3)", or "3" if one number was given.
  std::string tuple() const;
  std::string as_given() const;

  std::int64_t h;
  std::int64_t w;
  bool one_number = false;
  bool operator==(const IntPair&) const = default;
};

// The number of windows along one dimension; 0 or negative if the window does not fit. With
// ceil_mode the last window may reach beyond the image, but must start inside the image or its left
// padding, as in PyTorch.
constexpr std::int64_t window_count(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                                    std::int64_t padding, std::int64_t dilation,
                                    bool ceil_mode = false) noexcept {
  const std::int64_t room =
      size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  const std::int64_t steps = room / stride;
  return ceil_mode && steps * stride >= size + padding ? steps : steps + 1;
}

struct Conv2dArgs {
  IntPair stride = 1;
  IntPair padding = 0;  // zeros on each side
  IntPair dilation = 1;
  std::int64_t groups = 1;
  bool relu = false;  // the result is relu(convolution), computed in one pass
  bool operator==(const Conv2dArgs&) const = default;
};

struct MaxPool2dArgs {
  IntPair kernel = 1;
  IntPair stride = 1;
  IntPair padding = 0;  // padded elements are never the maximum; at most half the window
  IntPair dilation = 1;
  bool ceil_mode = false;  // sizes are rounded up
  bool relu = false;       // the result is max_pool2d(relu(input)), computed in one pass
  bool operator==(const MaxPool2dArgs&) const = default;
};

}  // namespace dl
