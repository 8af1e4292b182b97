// How a window moves over an image: what convolution and pooling are told besides their tensors.
// Pairs are {height, width}. Aggregates, for designated initialisers.
#pragma once

#include <array>
#include <cstdint>

namespace dl {

using Pair = std::array<std::int64_t, 2>;

// How many windows there are along one dimension; none or fewer where the window does not fit. With
// ceil_mode the last one may hang over, but must start inside the image or its left padding, as in
// PyTorch.
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
  Pair stride{1, 1};
  Pair padding{0, 0};  // zeros on each side
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  bool relu = false;  // the result is relu(convolution), computed in one pass
};

struct MaxPool2dArgs {
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};  // never wins; at most half the window
  Pair dilation{1, 1};
  bool ceil_mode = false;  // sizes are rounded up
  bool relu = false;       // the result is max_pool2d(relu(input)), computed in one pass
};

}  // namespace dl
