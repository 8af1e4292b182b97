#include <algorithm>
#include <type_traits>

#include "core/device/parallel.h"
#include "core/kernels/cpu/common/half_width.h"
#include "core/kernels/cpu/linear/gemm.h"
#include "core/kernels/declared/linear.h"

namespace dl::kernels::cpu {
namespace {

// A matrix as gemm takes it: row-major, or the transpose of a row-major one.
struct Matrix {
  explicit Matrix(const Tensor& m) : transposed(m.size(1) != 1 && m.stride(1) != 1) {
    // The stride of a dimension of size 1 means nothing, and oneDNN wants at least the row's
    // length.
    const std::int64_t length = transposed ? m.size(0) : m.size(1);
    const std::int64_t rows = transposed ? m.size(1) : m.size(0);
    stride = std::max<std::int64_t>({1, length, rows == 1 ? 1 : m.stride(transposed ? 1 : 0)});
  }
  bool transposed;
  std::int64_t stride;
};

// Calls body<float>(), body<double>() or body<std::int64_t>().
template <typename Body>
void visit_product(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body.template operator()<float>();
    case DType::kF64:
      return body.template operator()<double>();
    case DType::kI64:
      return body.template operator()<std::int64_t>();
    default:
      refuse_dtype("matmul", dtype, "a floating dtype or int64");
  }
}

// c = a b; two dimensions each.
template <typename T>
Gemm<T> gemm_of(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Matrix left(a);
  const Matrix right(b);
  return {.m = c.size(0),
          .n = c.size(1),
          .k = a.size(1),
          .a = a.data<T>(),
          .lda = left.stride,
          .transpose_a = left.transposed,
          .b = b.data<T>(),
          .ldb = right.stride,
          .transpose_b = right.transposed,
          .c = c.data<T>(),
          .ldc = Matrix(c).stride};
}

Tensor first_matrix(const Tensor& batch) {
  return as_strided(batch, {batch.size(1), batch.size(2)}, {batch.stride(1), batch.stride(2)},
                    batch.storage_offset());
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c) {
  if (a.dtype() == DType::kBF16) {
    Bf16Gemm g{.first = gemm_of<BFloat16>(a, b, c)};
    g.first.accumulate = accumulate;
    if (gemm(g)) return;
  }
  if (is_half_width(a)) {
    const Tensor wide = accumulate ? widened(c) : wide_like(c);
    matmul(widened(a), widened(b), accumulate, wide);
    return round_into(wide, c);
  }
  visit_product(a.dtype(), [&]<typename T>() {
    Gemm<T> g = gemm_of<T>(a, b, c);
    g.accumulate = accumulate;
    gemm(g);
  });
}

void matmul_batch(const Tensor& a, const Tensor& b, const Tensor& c) {
  const std::int64_t count = c.size(0);
  if (count == 0) return;
  if (a.dtype() == DType::kBF16 &&
      gemm({.first = gemm_of<BFloat16>(first_matrix(a), first_matrix(b), first_matrix(c)),
            .count = count,
            .a_step = a.stride(0),
            .b_step = b.stride(0),
            .c_step = c.stride(0)})) {
    return;
  }
  if (is_half_width(a)) {
    const Tensor wide = wide_like(c);
    matmul_batch(widened(a), widened(b), wide);
    return round_into(wide, c);
  }
  visit_product(a.dtype(), [&]<typename T>() {
    const Gemm<T> first = gemm_of<T>(first_matrix(a), first_matrix(b), first_matrix(c));
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Gemm<T> g = first;
        g.a += i * a.stride(0);
        g.b += i * b.stride(0);
        g.c += i * c.stride(0);
        gemm(g);
      }
    };
    // Products with work for all threads have it one after the other; so do those for which a
    // library is called, which may throw.
    constexpr std::int64_t kGrain = 64 * 1024;  // multiplications worth a thread
    bool serial = true;
    if constexpr (std::is_same_v<T, float>) serial = !is_small(first);
    if constexpr (!std::is_same_v<T, float>) serial = false;
    if (serial) return run(0, count);
    const std::int64_t each = std::max<std::int64_t>(1, first.m * first.n * first.k);
    parallel_for(count, std::max<std::int64_t>(1, kGrain / each), run);
  });
}

}  // namespace dl::kernels::cpu
