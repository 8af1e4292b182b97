// Tensors for tests: the same values on every run, in [-1, 1).
#pragma once

#include <vector>

#include "core/tensor/factories.h"
#include "tests/core/kernels/random_values.h"

namespace dl {

inline Tensor random_tensor(const Shape& shape, DType dtype = DType::kF32, std::uint64_t seed = 1) {
  const auto values = kernels::random_values<double>(element_count(shape, "test"), seed);
  return tensor(values, {.dtype = dtype}).view(shape);
}

// The same values on other memory: transposed twice, with a gap between rows.
inline Tensor strided_copy(const Tensor& t) {
  Shape wide = t.sizes();
  wide[wide.size() - 1] *= 2;
  Tensor result = zeros(wide, {.dtype = t.dtype()}).slice(-1, 0, wide.back(), 2);
  result.copy_(t);
  return result;
}

// What a sum of some tens of such values may be off by.
inline double sum_tolerance(DType dtype) {
  return dtype == DType::kF32 ? 1e-5 : 1e-13;
}

}  // namespace dl
