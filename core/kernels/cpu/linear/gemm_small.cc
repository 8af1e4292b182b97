// Kernels for products that are slower in oneDNN, because of its call or its packing: small ones,
// and matrix times vector.
//
// A small C is computed in blocks of kRows x 2 vectors that stay in registers; B is packed one
// column panel at a time, so that transposed matrices and incomplete blocks use the same inner
// loop.
#include <algorithm>
#include <cstdint>

#include "core/device/parallel.h"
#include "core/kernels/cpu/linear/gemm.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/linear/gemm_small.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr std::int64_t kMaxDepth = 512;  // of a panel, which is on the stack
constexpr std::int64_t kRows = 6;        // 12 sums, 2 columns of B and a broadcast fit 16 registers

// panel[p][j] = op(B)[p][first + j], zero beyond B's last column.
void pack_panel(const Gemm<float>& g, std::int64_t first, std::int64_t width, float* panel) {
  const std::int64_t columns = std::min(width, g.n - first);
  if (g.transpose_b) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const float* from = g.b + (first + j) * g.ldb;
      for (std::int64_t p = 0; p < g.k; ++p) panel[p * width + j] = from[p];
    }
  } else {
    for (std::int64_t p = 0; p < g.k; ++p) {
      std::copy_n(g.b + p * g.ldb + first, columns, panel + p * width);
    }
  }
  if (columns == width) return;
  for (std::int64_t p = 0; p < g.k; ++p) {
    std::fill_n(panel + p * width + columns, width - columns, 0.0F);
  }
}

template <int Rows>
void block(const Gemm<float>& g, std::int64_t row, std::int64_t first, const float* panel) {
  const hn::ScalableTag<float> d;
  using Vector = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t a_row = g.transpose_a ? 1 : g.lda;
  const std::int64_t a_col = g.transpose_a ? g.lda : 1;
  const float* a = g.a + row * a_row;
  Vector left[Rows];
  Vector right[Rows];
  for (int r = 0; r < Rows; ++r) left[r] = right[r] = hn::Zero(d);
  for (std::int64_t p = 0; p < g.k; ++p) {
    const Vector b0 = hn::Load(d, panel + p * 2 * lanes);
    const Vector b1 = hn::Load(d, panel + p * 2 * lanes + lanes);
    for (int r = 0; r < Rows; ++r) {
      const Vector x = hn::Set(d, a[r * a_row + p * a_col]);
      left[r] = hn::MulAdd(x, b0, left[r]);
      right[r] = hn::MulAdd(x, b1, right[r]);
    }
  }
  const std::int64_t columns = std::min(2 * lanes, g.n - first);
  HWY_ALIGN float out[2 * HWY_MAX_BYTES / sizeof(float)];
  for (int r = 0; r < Rows; ++r) {
    float* c = g.c + (row + r) * g.ldc + first;
    if (columns == 2 * lanes) {
      if (g.accumulate) {
        left[r] = hn::Add(left[r], hn::LoadU(d, c));
        right[r] = hn::Add(right[r], hn::LoadU(d, c + lanes));
      }
      hn::StoreU(left[r], d, c);
      hn::StoreU(right[r], d, c + lanes);
      continue;
    }
    hn::Store(left[r], d, out);
    hn::Store(right[r], d, out + lanes);
    for (std::int64_t j = 0; j < columns; ++j) c[j] = g.accumulate ? c[j] + out[j] : out[j];
  }
}

void run(const Gemm<float>& g) {
  const hn::ScalableTag<float> d;
  const std::int64_t width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float panel[kMaxDepth * 2 * (HWY_MAX_BYTES / sizeof(float))];
  for (std::int64_t first = 0; first < g.n; first += width) {
    pack_panel(g, first, width, panel);
    std::int64_t row = 0;
    for (; row + kRows <= g.m; row += kRows) block<kRows>(g, row, first, panel);
    switch (g.m - row) {
      case 5:
        block<5>(g, row, first, panel);
        break;
      case 4:
        block<4>(g, row, first, panel);
        break;
      case 3:
        block<3>(g, row, first, panel);
        break;
      case 2:
        block<2>(g, row, first, panel);
        break;
      case 1:
        block<1>(g, row, first, panel);
        break;
      default:
        break;
    }
  }
}

// Rows [begin, end) of a matrix times a vector: a dot product each, in four sums, so that additions
// need not wait for each other.
void run_rows_by_vector(const Gemm<float>& g, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const a = g.a + row * g.lda;
    auto s0 = hn::Zero(d);
    auto s1 = s0;
    auto s2 = s0;
    auto s3 = s0;
    std::int64_t p = 0;
    for (; p + 4 * lanes <= g.k; p += 4 * lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, a + p), hn::LoadU(d, g.b + p), s0);
      s1 = hn::MulAdd(hn::LoadU(d, a + p + lanes), hn::LoadU(d, g.b + p + lanes), s1);
      s2 = hn::MulAdd(hn::LoadU(d, a + p + 2 * lanes), hn::LoadU(d, g.b + p + 2 * lanes), s2);
      s3 = hn::MulAdd(hn::LoadU(d, a + p + 3 * lanes), hn::LoadU(d, g.b + p + 3 * lanes), s3);
    }
    for (; p + lanes <= g.k; p += lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, a + p), hn::LoadU(d, g.b + p), s0);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    for (; p < g.k; ++p) total += a[p] * g.b[p];
    float& c = g.c[row * g.ldc];
    c = g.accumulate ? c + total : total;
  }
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {

HWY_EXPORT(run);

bool is_rows_by_vector(const Gemm<float>& g) noexcept {
  // Below this the kernel for small products is as fast.
  constexpr std::int64_t kProducts = 16 * 1024;
  return g.n == 1 && !g.transpose_a && (g.transpose_b || g.ldb == 1) && g.m * g.k >= kProducts;
}

HWY_EXPORT(run_rows_by_vector);

void rows_by_vector(const Gemm<float>& g) noexcept {
  constexpr std::int64_t kGrain = 32 * 1024;  // products worth a thread
  parallel_for(g.m, kGrain / g.k + 1, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(run_rows_by_vector)(g, begin, end);
  });
}

bool is_small(const Gemm<float>& g) noexcept {
  // Measured: below about this many products the packing costs less than oneDNN's call, its own
  // packing and its barrier.
  constexpr std::int64_t kProducts = 128 * 1024;
  return g.k <= 512 && g.m * g.n * g.k <= kProducts;
}

void small_gemm(const Gemm<float>& g) noexcept {
  HWY_DYNAMIC_DISPATCH(run)(g);
}

}  // namespace dl::kernels
#endif
