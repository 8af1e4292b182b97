// The indices that PyTorch's samplers gave.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/parity/arrays.h"

namespace dl::data {

using Indices = std::vector<std::int64_t>;

inline Indices torch_indices(const std::string& name) {
  static const parity::Arrays arrays("samplers");
  return arrays.get<std::int64_t>(name);
}

}  // namespace dl::data
