// Matrix products on plain memory, row-major: C = op(A) op(B), or C += op(A) op(B).
//
// Small f32 products run in a register-blocked kernel of our own, since a call of oneDNN costs more
// than the product itself there; larger ones run in oneDNN's sgemm on OpenMP's threads. f64, which
// is for gradient checks, and int64, which wraps around, are simple loops. The same bits on every
// run with the same number of threads.
#pragma once

#include <cstdint>

namespace dl::kernels {

template <typename T>
struct Gemm {
  std::int64_t m = 0;  // rows of C
  std::int64_t n = 0;  // columns of C
  std::int64_t k = 0;  // terms of each sum; with k = 0 C is zero, or left as it is
  const T* a = nullptr;
  std::int64_t lda = 0;      // elements from one stored row to the next
  bool transpose_a = false;  // A is stored [k, m]
  const T* b = nullptr;
  std::int64_t ldb = 0;
  bool transpose_b = false;  // B is stored [n, k]
  T* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;  // add to what C holds
};

void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);
void gemm(const Gemm<std::int64_t>& g);

// Whether gemm takes one of its own kernels for this product, and that kernel.
bool is_rows_by_vector(const Gemm<float>& g) noexcept;
void rows_by_vector(const Gemm<float>& g) noexcept;
bool is_small(const Gemm<float>& g) noexcept;
void small_gemm(const Gemm<float>& g) noexcept;

}  // namespace dl::kernels
