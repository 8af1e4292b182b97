// Products of two matrices by cuBLASLt, with a fused epilogue: c = epilogue(a b), or c += a b.
//
// The choice of cuBLASLt's heuristic for a case is cached by a key of plain data: every call of a
// case uses the same algorithm, and so gives the same bits.
#pragma once

#include <cstdint>

#include "core/kernels/cuda/elementwise/epilogue.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

// A row-major matrix, or the transpose of one.
struct Stored {
  explicit Stored(const Tensor& matrix);
  // The first of a batch of matrices [count, rows, columns].
  static Stored first_of(const Tensor& batch);
  // The transpose, in the same memory.
  Stored turned() const noexcept {
    Stored result = *this;
    result.transposed = !transposed;
    return result;
  }

  void* data;
  bool transposed;
  std::int64_t stride;

 private:
  Stored(void* data, const Shape& sizes, const Strides& strides, std::size_t first_dim);
};

// Products of matrices that lie at the same distance from each other, in elements.
struct Batch {
  std::int64_t count = 1;
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::int64_t result = 0;
};

struct Product {
  Stored left;
  Stored right;
  const Tensor& c;  // a matrix, or a batch of them
  Batch batch{};
  bool accumulate = false;
  Epilogue epilogue = Epilogue::kNone;
  const void* bias = nullptr;    // added, or written by kBiasGradient
  const void* second = nullptr;  // the mask, or GELU's input
};

// `k` is the length of the sums, at least 1. False, without computing anything, if cuBLASLt has no
// algorithm for the epilogue; throws kNotImplemented if it has none even without an epilogue.
bool multiply(const Product& product, std::int64_t k, const Launch& launch);

}  // namespace dl::kernels::cuda
