#include "core/kernels/cpu/linear/gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/kernels/cpu/dnnl/call.h"

namespace dl::kernels {
namespace {

template <typename T>
void clear(const Gemm<T>& g) {
  if (g.accumulate) return;
  for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, T{0});
}

template <typename T, typename AddProduct>
void plain_gemm(const Gemm<T>& g, const AddProduct& add_product) {
  clear(g);
  const std::int64_t a_row = g.transpose_a ? 1 : g.lda;
  const std::int64_t a_col = g.transpose_a ? g.lda : 1;
  const std::int64_t b_row = g.transpose_b ? 1 : g.ldb;
  const std::int64_t b_col = g.transpose_b ? g.ldb : 1;
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t p = 0; p < g.k; ++p) {
      const T a = g.a[i * a_row + p * a_col];
      for (std::int64_t j = 0; j < g.n; ++j) {
        add_product(g.c[i * g.ldc + j], a, g.b[p * b_row + j * b_col]);
      }
    }
  }
}

}  // namespace

void gemm(const Gemm<float>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) return clear(g);
  if (is_rows_by_vector(g)) return rows_by_vector(g);
  if (is_small(g)) return small_gemm(g);
  const DnnlCall call;
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0F, g.a,
                 g.lda, g.b, g.ldb, g.accumulate ? 1.0F : 0.0F, g.c, g.ldc);
  DL_CHECK(status == dnnl_success, kInternal,
           "matmul: oneDNN refused f32 [{}, {}] x [{}, {}] with status {}", g.m, g.k, g.k, g.n,
           static_cast<int>(status));
  DnnlCall::guard_code_of({.operations = g.m * g.n * g.k,
                           .transpose_a = g.transpose_a,
                           .transpose_b = g.transpose_b,
                           .accumulate = g.accumulate});
}

void gemm(const Gemm<double>& g) {
  plain_gemm(g, [](double& sum, double a, double b) { sum += a * b; });
}

void gemm(const Gemm<std::int64_t>& g) {
  plain_gemm(g, [](std::int64_t& sum, std::int64_t a, std::int64_t b) {
    const auto product = static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
    sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + product);
  });
}

}  // namespace dl::kernels
