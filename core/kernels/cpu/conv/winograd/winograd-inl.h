// Winograd's convolution: the transforms along one dimension, and what its passes share. How it
// works is written in winograd.cc. Included once for each of Highway's targets.
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "core/kernels/cpu/conv/winograd/plan.h"

#if defined(DLRUN_CORE_KERNELS_CPU_WINOGRAD_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLRUN_CORE_KERNELS_CPU_WINOGRAD_INL_
#undef DLRUN_CORE_KERNELS_CPU_WINOGRAD_INL_
#else
#define DLRUN_CORE_KERNELS_CPU_WINOGRAD_INL_
#endif

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using winograd::apart;
using winograd::Floats;
using winograd::floats;
using winograd::Plan;
using winograd::Strip;
using winograd::Workspace;

constexpr std::int64_t kRows = 6;  // of a product's block in registers: 12 sums

HWY_INLINE V times(float k, V x) {
  return hn::Mul(hn::Set(D(), k), x);
}
// k x + y
HWY_INLINE V times_plus(float k, V x, V y) {
  return hn::MulAdd(hn::Set(D(), k), x, y);
}

// One dimension of the transforms for a tile size. Each reads `step` apart from `from` and writes
// `step` apart to `to`, which may be the same vectors.
template <int kTile>
struct Scheme;

template <>
struct Scheme<2> {
  static constexpr int kSize = 4;  // of a transformed tile
  // B^T d
  static HWY_INLINE void input(const V* d, V* to, std::ptrdiff_t step) {
    const V d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    to[0] = hn::Sub(d0, d2);
    to[step] = hn::Add(d1, d2);
    to[2 * step] = hn::Sub(d2, d1);
    to[3 * step] = hn::Sub(d1, d3);
  }
  // A^T m
  static HWY_INLINE void output(const V* m, V* to, std::ptrdiff_t step) {
    const V m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step];
    to[0] = hn::Add(hn::Add(m0, m1), m2);
    to[step] = hn::Sub(hn::Sub(m1, m2), m3);
  }
  // A g
  static HWY_INLINE void gradient(const V* g, V* to, std::ptrdiff_t step) {
    const V g0 = g[0], g1 = g[step];
    to[0] = g0;
    to[step] = hn::Add(g0, g1);
    to[2 * step] = hn::Sub(g0, g1);
    to[3 * step] = hn::Neg(g1);
  }
  // G g
  static HWY_INLINE void weight(const V* g, V* to, std::ptrdiff_t step) {
    const V g0 = g[0], g1 = g[step], g2 = g[2 * step];
    const V ends = hn::Add(g0, g2);
    to[0] = g0;
    to[step] = times(0.5F, hn::Add(ends, g1));
    to[2 * step] = times(0.5F, hn::Sub(ends, g1));
    to[3 * step] = g2;
  }
  // G^T u
  static HWY_INLINE void weight_gradient(const V* u, V* to, std::ptrdiff_t step) {
    const V u0 = u[0], u1 = u[step], u2 = u[2 * step], u3 = u[3 * step];
    const V sum = times(0.5F, hn::Add(u1, u2));
    to[0] = hn::Add(u0, sum);
    to[step] = times(0.5F, hn::Sub(u1, u2));
    to[2 * step] = hn::Add(sum, u3);
  }
};

template <>
struct Scheme<4> {
  static constexpr int kSize = 6;
  static constexpr float kA = std::numbers::sqrt2_v<float> / 2;
  static constexpr float kB = std::numbers::sqrt2_v<float>;

  static HWY_INLINE void input(const V* d, V* to, std::ptrdiff_t step) {
    const V d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step],
            d5 = d[5 * step];
    const V a_even = times_plus(-2, d2, d4);
    const V a_odd = times(kA, times_plus(-2, d1, d3));
    const V b_even = times_plus(-0.5F, d2, d4);
    const V b_odd = times(kB, times_plus(-0.5F, d1, d3));
    to[0] = hn::Add(d0, times_plus(-2.5F, d2, d4));
    to[step] = hn::Add(a_even, a_odd);
    to[2 * step] = hn::Sub(a_even, a_odd);
    to[3 * step] = hn::Add(b_even, b_odd);
    to[4 * step] = hn::Sub(b_even, b_odd);
    to[5 * step] = hn::Add(d1, times_plus(-2.5F, d3, d5));
  }
  static HWY_INLINE void output(const V* m, V* to, std::ptrdiff_t step) {
    const V m0 = m[0], m5 = m[5 * step];
    const V a_even = hn::Add(m[step], m[2 * step]);
    const V a_odd = times(kA, hn::Sub(m[step], m[2 * step]));
    const V b_even = hn::Add(m[3 * step], m[4 * step]);
    const V b_odd = times(kB, hn::Sub(m[3 * step], m[4 * step]));
    to[0] = hn::Add(m0, hn::Add(a_even, b_even));
    to[step] = hn::Add(a_odd, b_odd);
    to[2 * step] = times_plus(0.5F, a_even, hn::Add(b_even, b_even));
    to[3 * step] = hn::Add(m5, times_plus(0.5F, a_odd, hn::Add(b_odd, b_odd)));
  }
  static HWY_INLINE void gradient(const V* g, V* to, std::ptrdiff_t step) {
    const V g0 = g[0], g1 = g[step], g2 = g[2 * step], g3 = g[3 * step];
    const V a_even = times_plus(0.5F, g2, g0);
    const V a_odd = times(kA, times_plus(0.5F, g3, g1));
    const V b_even = times_plus(2, g2, g0);
    const V b_odd = times(kB, times_plus(2, g3, g1));
    to[0] = g0;
    to[step] = hn::Add(a_even, a_odd);
    to[2 * step] = hn::Sub(a_even, a_odd);
    to[3 * step] = hn::Add(b_even, b_odd);
    to[4 * step] = hn::Sub(b_even, b_odd);
    to[5 * step] = g3;
  }
  static HWY_INLINE void weight(const V* g, V* to, std::ptrdiff_t step) {
    const V g0 = g[0], g1 = g[step], g2 = g[2 * step];
    const V a_even = times(-2.0F / 3, times_plus(0.5F, g2, g0));
    const V a_odd = times(-2.0F / 3 * kA, g1);
    const V b_even = times(1.0F / 6, times_plus(2, g2, g0));
    const V b_odd = times(1.0F / 6 * kB, g1);
    to[0] = g0;
    to[step] = hn::Add(a_even, a_odd);
    to[2 * step] = hn::Sub(a_even, a_odd);
    to[3 * step] = hn::Add(b_even, b_odd);
    to[4 * step] = hn::Sub(b_even, b_odd);
    to[5 * step] = g2;
  }
  static HWY_INLINE void weight_gradient(const V* u, V* to, std::ptrdiff_t step) {
    const V u0 = u[0], u5 = u[5 * step];
    const V a_even = times(-2.0F / 3, hn::Add(u[step], u[2 * step]));
    const V a_odd = times(-2.0F / 3 * kA, hn::Sub(u[step], u[2 * step]));
    const V b_even = times(1.0F / 6, hn::Add(u[3 * step], u[4 * step]));
    const V b_odd = times(1.0F / 6 * kB, hn::Sub(u[3 * step], u[4 * step]));
    to[0] = hn::Add(u0, hn::Add(a_even, b_even));
    to[step] = hn::Add(a_odd, b_odd);
    to[2 * step] = hn::Add(u5, times_plus(0.5F, a_even, hn::Add(b_even, b_even)));
  }
};

// The number of valid lanes of the vector at channel `o`.
HWY_INLINE std::size_t existing(std::int64_t o, std::int64_t channels) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  return static_cast<std::size_t>(std::clamp<std::int64_t>(channels - o, 0, lanes));
}

// V of a strip.
template <int kTile, typename T>
void transform_input(const Plan& plan, const Strip& strip, const T* x, Workspace& work) {
  constexpr int kSize = Scheme<kTile>::kSize;
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t step = apart(strip.tiles * plan.c);
  for (std::int64_t tile = 0; tile < strip.tiles; ++tile) {
    const std::int64_t in_image = tile % strip.image_tiles;
    if (in_image == 0) work.load(plan, strip, strip.first_image + tile / strip.image_tiles, x);
    const float* corner = work.frame.get() + in_image / plan.tiles_w * kTile * work.frame_row +
                          in_image % plan.tiles_w * kTile * plan.c;
    float* to = work.v.get() + tile * plan.c;
    for (std::int64_t c = 0; c < plan.c; c += lanes) {
      V t[kSize * kSize];
      for (int row = 0; row < kSize; ++row) {
        const float* from = corner + row * work.frame_row + c;
        for (int q = 0; q < kSize; ++q) t[row * kSize + q] = hn::Load(d, from + q * plan.c);
        Scheme<kTile>::input(t + row * kSize, t + row * kSize, 1);
      }
      for (int q = 0; q < kSize; ++q) {
        V column[kSize];
        for (int row = 0; row < kSize; ++row) column[row] = t[row * kSize + q];
        Scheme<kTile>::input(column, column, 1);
        for (int row = 0; row < kSize; ++row) {
          hn::Store(column[row], d, to + (row * kSize + q) * step + c);
        }
      }
    }
  }
}

// c[row][2 vectors] = (or +=) sum over k of a[row][k] b[k][2 vectors]; a is read with any strides.
template <int Rows>
HWY_INLINE void product_block(std::int64_t depth, const float* a, std::int64_t a_row,
                              std::int64_t a_depth, const float* b, std::int64_t b_depth, bool add,
                              float* c, std::int64_t c_row) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V low[Rows];
  V high[Rows];
  for (int r = 0; r < Rows; ++r) {
    low[r] = add ? hn::Load(d, c + r * c_row) : hn::Zero(d);
    high[r] = add ? hn::Load(d, c + r * c_row + lanes) : hn::Zero(d);
  }
  for (std::int64_t k = 0; k < depth; ++k, a += a_depth, b += b_depth) {
    const V b0 = hn::Load(d, b);
    const V b1 = hn::Load(d, b + lanes);
    for (int r = 0; r < Rows; ++r) {
      const V x = hn::Set(d, a[r * a_row]);
      low[r] = hn::MulAdd(x, b0, low[r]);
      high[r] = hn::MulAdd(x, b1, high[r]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    hn::Store(low[r], d, c + r * c_row);
    hn::Store(high[r], d, c + r * c_row + lanes);
  }
}

// All rows, in blocks of nearly equal size.
void product_rows(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t a_row,
                  std::int64_t a_depth, const float* b, std::int64_t b_depth, bool add, float* c,
                  std::int64_t c_row) {
  const std::int64_t passes = (rows + kRows - 1) / kRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t first = rows * pass / passes;
    const float* from = a + first * a_row;
    float* to = c + first * c_row;
    switch (rows * (pass + 1) / passes - first) {
      case 6:
        product_block<6>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 5:
        product_block<5>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 4:
        product_block<4>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 3:
        product_block<3>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 2:
        product_block<2>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      default:
        product_block<1>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
    }
  }
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
