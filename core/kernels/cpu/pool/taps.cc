#include "core/kernels/declared/pool.h"

#include <algorithm>
#include <vector>

#include "core/args/axis_taps.h"
#include "core/device/parallel.h"
#include "core/kernels/cpu/common/half_width.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/pool/taps.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

// out[0, length) = the sum of weight[k] x[index[k] length + ...] over taps [begin, end).
template <typename T>
void weighted_sum(const AxisTaps& taps, std::int64_t begin, std::int64_t end, std::int64_t length,
                  const T* x, T* out) {
  for (std::int64_t k = begin; k < end; ++k) {
    const auto tap = static_cast<std::size_t>(k);
    const T weight = static_cast<T>(taps.weight[tap]);
    const T* const from = x + taps.index[tap] * length;
    if (k == begin) {  // NOLINT(bugprone-branch-clone): = and +=
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i) out[i] = weight * from[i];
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i) out[i] += weight * from[i];
    }
  }
  if (begin == end) std::fill_n(out, length, T(0));
}

// Rows [begin, end) of all images' rows of the result. An image's row is `row` elements of x.
template <typename T>
void tap_rows(const Taps2d& taps, std::int64_t channels, const T* x, T* y, std::int64_t begin,
              std::int64_t end) {
  const std::int64_t row = taps.columns.inputs * channels;
  const std::int64_t out_row = taps.columns.outputs() * channels;
  std::vector<T> sums(static_cast<std::size_t>(row));
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t image = r / taps.rows.outputs();
    const auto i = static_cast<std::size_t>(r % taps.rows.outputs());
    weighted_sum(taps.rows, taps.rows.first[i], taps.rows.first[i + 1], row,
                 x + image * taps.rows.inputs * row, sums.data());
    for (std::int64_t j = 0; j < taps.columns.outputs(); ++j) {
      const auto o = static_cast<std::size_t>(j);
      weighted_sum(taps.columns, taps.columns.first[o], taps.columns.first[o + 1], channels,
                   sums.data(), y + r * out_row + j * channels);
    }
  }
}

void tap_rows_f32(const Taps2d& taps, std::int64_t channels, const float* x, float* y,
                  std::int64_t begin, std::int64_t end) {
  tap_rows(taps, channels, x, y, begin, end);
}
void tap_rows_f64(const Taps2d& taps, std::int64_t channels, const double* x, double* y,
                  std::int64_t begin, std::int64_t end) {
  tap_rows(taps, channels, x, y, begin, end);
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(tap_rows_f32);
HWY_EXPORT(tap_rows_f64);

void taps2d(const Taps2d& taps, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  if (is_half_width(x)) {
    const Tensor wide = wide_like(y);
    taps2d(taps, widened(x), wide);
    return round_into(wide, y);
  }
  constexpr std::int64_t kGrain = 16 * 1024;  // elements worth a thread
  const std::int64_t channels = x.size(1);
  const std::int64_t row = std::max(taps.columns.inputs, taps.columns.outputs()) * channels;
  parallel_for(x.size(0) * taps.rows.outputs(), kGrain / std::max<std::int64_t>(1, row) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 if (x.dtype() == DType::kF64) {
                   HWY_DYNAMIC_DISPATCH(tap_rows_f64)
                   (taps, channels, x.data<double>(), y.data<double>(), begin, end);
                 } else {
                   HWY_DYNAMIC_DISPATCH(tap_rows_f32)
                   (taps, channels, x.data<float>(), y.data<float>(), begin, end);
                 }
               });
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
