// Ramp: a tensor of whole numbers in even steps, such as arange() gives: element [i, j] is
// base + i steps[0] + j steps[1]. A pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl::onnx {

struct Ramp {
  std::int64_t base = 0;
  std::vector<std::int64_t> steps;  // for each dimension; 0 for a size of 1
};

// None for other numbers. The tensor is contiguous, on the CPU, and not bool.
std::optional<Ramp> ramp_of(const Tensor& tensor);

}  // namespace dl::onnx
