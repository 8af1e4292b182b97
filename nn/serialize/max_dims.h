// A limit of all file readers.
#pragma once

#include <cstddef>

namespace dl::nn {

// The most dimensions of a tensor in a file, as in PyTorch and NumPy.
inline constexpr std::size_t kMaxDims = 64;

}  // namespace dl::nn
