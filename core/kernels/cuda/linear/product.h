// One product of two matrices by cuBLASLt, with what follows it in the same pass: c = epilogue(a
// b), or c += a b.
//
// What cuBLASLt's heuristic chose for a case is kept, keyed by plain data: the same algorithm, and
// so the same bits, for every call of a case.
#pragma once

#include <cstdint>

#include "core/kernels/cuda/elementwise/epilogue.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

// A row-major matrix, or the transpose of one.
struct Stored {
  explicit Stored(const Tensor& matrix);
  // What lies in the same memory, read the other way.
  Stored turned() const noexcept {
    Stored result = *this;
    result.transposed = !transposed;
    return result;
  }

  void* data;
  bool transposed;
  std::int64_t stride;
};

struct Product {
  Stored left;
  Stored right;
  const Tensor& c;
  bool accumulate = false;
  Epilogue epilogue = Epilogue::kNone;
  const void* bias = nullptr;    // added, or written by kBiasGradient
  const void* second = nullptr;  // the mask, or what GELU is applied to
};

// `k` is the length of the sums, at least 1. False, and nothing is computed, where cuBLASLt has no
// algorithm for the epilogue; throws kNotImplemented where it has none without one.
bool multiply(const Product& product, std::int64_t k, const Launch& launch);

}  // namespace dl::kernels::cuda
