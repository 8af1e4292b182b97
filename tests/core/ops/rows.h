// Inputs and functions for tests that loop over the rows of core/elementwise/list.def.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/tensor/factories.h"

namespace dl::testing {

// Numbers between the row's bounds, float64: spread evenly, none of them near 0 or near a bound.
inline Tensor numbers_for(const UnaryFacts& row, const Shape& shape, std::uint64_t seed = 1) {
  Tensor result = empty(shape, {.dtype = DType::kF64});
  const double width = row.high - row.low;
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    // The multiples of an irrational number, modulo 1.
    const double turns =
        static_cast<double>(i + 17 * static_cast<std::int64_t>(seed)) * 0.6180339887498949;
    double x = row.low + (0.01 + 0.98 * (turns - std::floor(turns))) * width;
    if (std::abs(x) < 0.01 * width) x = 0.02 * width;
    result.data<double>()[i] = x;
  }
  return result;
}

inline Tensor apply(const UnaryFacts& row, const Tensor& x) {
  return unary(row.fn, x, row.sample);
}

}  // namespace dl::testing
