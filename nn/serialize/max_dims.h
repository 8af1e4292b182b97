// A limit that all readers of files share.
#pragma once

#include <cstddef>

namespace dl::nn {

// Dimensions of a tensor that a file may announce, as in PyTorch and NumPy.
inline constexpr std::size_t kMaxDims = 64;

}  // namespace dl::nn
