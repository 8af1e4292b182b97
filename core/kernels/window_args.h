// How a window moves over an image: what convolution and pooling are told besides their tensors.
// Pairs are {height, width}. Aggregates, for designated initialisers.
#pragma once

#include <array>
#include <cstdint>

namespace dl {

using Pair = std::array<std::int64_t, 2>;

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
