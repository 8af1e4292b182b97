// Matrix products on plain memory, row-major: C = op(A) op(B), or C += op(A) op(B).
//
// Small f32 products run in dlrun's register-blocked kernel, because a oneDNN call costs more than
// the product itself; larger ones run in oneDNN's sgemm on OpenMP's threads. f64 (for gradient
// checks) and int64 (wraps around) are simple loops. bfloat16 runs in oneDNN, if the CPU has
// instructions for it. The same number of threads gives the same bits on every run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/tensor/half.h"

namespace dl::kernels {

template <typename T>
struct Gemm {
  std::int64_t m = 0;  // rows of C
  std::int64_t n = 0;  // columns of C
  std::int64_t k = 0;  // terms of each sum; k = 0: C = 0, or C += 0
  const T* a = nullptr;
  std::int64_t lda = 0;      // elements from one stored row to the next
  bool transpose_a = false;  // A is stored [k, m]
  const T* b = nullptr;
  std::int64_t ldb = 0;
  bool transpose_b = false;  // B is stored [n, k]
  T* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;  // add to C
};

void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);
void gemm(const Gemm<std::int64_t>& g);

// C = op(A) op(B) + bias, [n], in each row; without it if bias is null.
template <typename T>
void gemm_with_bias(Gemm<T> g, const T* bias) {
  g.accumulate = bias != nullptr;
  for (std::int64_t i = 0; g.accumulate && i < g.m; ++i) std::copy_n(bias, g.n, g.c + i * g.ldc);
  gemm(g);
}

// A batch of bfloat16 products of one shape. Sums are float32, rounded once.
struct Bf16Gemm {
  Gemm<BFloat16> first;
  std::int64_t count = 1;
  // Elements from one matrix of the batch to the next; 0: they are all the same one.
  std::int64_t a_step = 0;
  std::int64_t b_step = 0;
  std::int64_t c_step = 0;
  const BFloat16* bias = nullptr;  // [n], added to each row of C; or null
};

// Returns false, and computes nothing, if the CPU has no instructions for bfloat16.
bool gemm(const Bf16Gemm& g);

// The kernels of dlrun's own, and whether gemm() uses them for this product.
bool is_rows_by_vector(const Gemm<float>& g) noexcept;
void rows_by_vector(const Gemm<float>& g) noexcept;
bool is_small(const Gemm<float>& g) noexcept;
void small_gemm(const Gemm<float>& g) noexcept;

}  // namespace dl::kernels
