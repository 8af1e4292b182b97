// StateDict: a list of named tensors, as a module's state_dict() returns and a file of weights
// contains.
//
// The tensors are handles: a state dict taken from a module shares its memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl::nn {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Names are unique; PyTorch's spelling ("features.0.weight") and order.
using StateDict = std::vector<NamedTensor>;

// Null if there is no such name.
inline const Tensor* find(const StateDict& state, std::string_view name) noexcept {
  for (const NamedTensor& entry : state) {
    if (entry.name == name) return &entry.tensor;
  }
  return nullptr;
}

}  // namespace dl::nn
