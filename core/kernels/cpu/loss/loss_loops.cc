#include "core/kernels/cpu/loss/loss_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/kernels/cpu/common/parts.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/loss/loss_loops.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
T maximum(std::int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  T best = -std::numeric_limits<T>::infinity();
  std::int64_t i = 0;
  if (n >= lanes) {
    auto v = hn::LoadU(d, x);
    for (i = lanes; i + lanes <= n; i += lanes) v = hn::Max(v, hn::LoadU(d, x + i));
    best = hn::GetLane(hn::MaxOfLanes(d, v));
  }
  for (; i < n; ++i) best = std::max(best, x[i]);
  return best;
}

// Keeps NaN, for which Highway's exp returns 0.
template <typename D, typename V>
HWY_INLINE V exp_or_nan(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

// sum of exp(x[i] - shift)
template <typename T>
T sum_exp(std::int64_t n, const T* x, T shift) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    sum = hn::Add(sum, exp_or_nan(d, hn::Sub(hn::LoadU(d, x + i), s)));
  }
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += std::exp(x[i] - shift);
  return total;
}

// to[i] = scale * exp(x[i] - shift)
template <typename T>
void scaled_exp(std::int64_t n, const T* x, T shift, T scale, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, shift);
  const auto f = hn::Set(d, scale);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Mul(f, exp_or_nan(d, hn::Sub(hn::LoadU(d, x + i), s))), d, to + i);
  }
  for (; i < n; ++i) to[i] = scale * std::exp(x[i] - shift);
}

// A row's maximum, and its ln sum exp(x - maximum). They stay two numbers, because adding a large
// maximum would round the logarithm away. A row with an infinite maximum or a NaN gives NaN, as the
// formula does.
template <typename T>
void row_sum(std::int64_t n, const T* x, T* to) {
  to[0] = maximum(n, x);
  to[1] = std::log(sum_exp(n, x, to[0]));
}

template <typename T>
T squared_error(std::int64_t n, const T* x, const T* y) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto e = hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    sum = hn::MulAdd(e, e, sum);
  }
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += (x[i] - y[i]) * (x[i] - y[i]);
  return total;
}

void row_sum_f32(std::int64_t n, const float* x, float* to) {
  row_sum(n, x, to);
}
void row_sum_f64(std::int64_t n, const double* x, double* to) {
  row_sum(n, x, to);
}
void scaled_exp_f32(std::int64_t n, const float* x, float shift, float scale, float* to) {
  scaled_exp(n, x, shift, scale, to);
}
void scaled_exp_f64(std::int64_t n, const double* x, double shift, double scale, double* to) {
  scaled_exp(n, x, shift, scale, to);
}
float squared_error_f32(std::int64_t n, const float* x, const float* y) {
  return squared_error(n, x, y);
}
double squared_error_f64(std::int64_t n, const double* x, const double* y) {
  return squared_error(n, x, y);
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {
namespace {

HWY_EXPORT(row_sum_f32);
HWY_EXPORT(row_sum_f64);
HWY_EXPORT(scaled_exp_f32);
HWY_EXPORT(scaled_exp_f64);
HWY_EXPORT(squared_error_f32);
HWY_EXPORT(squared_error_f64);

void row_sum(std::int64_t n, const float* x, float* to) {
  HWY_DYNAMIC_DISPATCH(row_sum_f32)(n, x, to);
}
void row_sum(std::int64_t n, const double* x, double* to) {
  HWY_DYNAMIC_DISPATCH(row_sum_f64)(n, x, to);
}
void scaled_exp(std::int64_t n, const float* x, float shift, float scale, float* to) {
  HWY_DYNAMIC_DISPATCH(scaled_exp_f32)(n, x, shift, scale, to);
}
void scaled_exp(std::int64_t n, const double* x, double shift, double scale, double* to) {
  HWY_DYNAMIC_DISPATCH(scaled_exp_f64)(n, x, shift, scale, to);
}
float squared_error(std::int64_t n, const float* x, const float* y) {
  return HWY_DYNAMIC_DISPATCH(squared_error_f32)(n, x, y);
}
double squared_error(std::int64_t n, const double* x, const double* y) {
  return HWY_DYNAMIC_DISPATCH(squared_error_f64)(n, x, y);
}

constexpr std::int64_t kElementsPerPart = 8 * 1024;
constexpr std::int64_t kBlock = 4096;  // elements of an f32 sum before it is added to the f64 sum

std::int64_t row_grain(std::int64_t classes) {
  return kElementsPerPart / std::max<std::int64_t>(1, classes) + 1;
}

std::int64_t first_bad_row(std::int64_t rows, std::int64_t classes, const std::int64_t* target) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (target[r] != kIgnoreIndex && (target[r] < 0 || target[r] >= classes)) return r;
  }
  return -1;
}

template <typename T>
CrossEntropyResult entropy_forward(std::int64_t rows, std::int64_t classes, const T* logits,
                                   const std::int64_t* target, T* row_sums) {
  CrossEntropyResult result;
  result.bad_row = first_bad_row(rows, classes, target);
  if (result.bad_row >= 0) return result;
  parallel_for(rows, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      row_sum(classes, logits + r * classes, row_sums + 2 * r);
    }
  });
  double sum = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (target[r] == kIgnoreIndex) continue;
    ++result.counted;
    const double below =
        static_cast<double>(row_sums[2 * r]) - static_cast<double>(logits[r * classes + target[r]]);
    sum += below + static_cast<double>(row_sums[2 * r + 1]);
  }
  result.loss = sum / static_cast<double>(result.counted);
  return result;
}

template <typename T>
void entropy_backward(std::int64_t rows, std::int64_t classes, const T* logits,
                      const std::int64_t* target, const T* row_sums, T scale, T* dlogits) {
  parallel_for(rows, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      T* to = dlogits + r * classes;
      if (target[r] == kIgnoreIndex) {
        // PyTorch's log_softmax multiplies this 0 by probabilities, which may be NaN.
        std::fill_n(to, classes, T{0} * row_sums[2 * r + 1]);
        continue;
      }
      scaled_exp(classes, logits + r * classes, row_sums[2 * r],
                 scale * std::exp(-row_sums[2 * r + 1]), to);
      to[target[r]] -= scale;
    }
  });
}

template <typename T>
double mean_squared_error(std::int64_t n, const T* x, const T* y) {
  std::vector<double> sums(static_cast<std::size_t>(parts_of(n, kElementsPerPart)), 0.0);
  parallel_parts(n, kElementsPerPart, [&](int part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kBlock) {
      sums[static_cast<std::size_t>(part)] +=
          static_cast<double>(squared_error(std::min(kBlock, end - i), x + i, y + i));
    }
  });
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum / static_cast<double>(n);
}

template <typename T>
void scaled_difference(std::int64_t n, const T* x, const T* y, T scale, T* d) {
  parallel_for(n, kElementsPerPart, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) d[i] = scale * (x[i] - y[i]);
  });
}

}  // namespace

CrossEntropyResult cross_entropy_forward(std::int64_t rows, std::int64_t classes,
                                         const float* logits, const std::int64_t* target,
                                         float* row_sums) {
  return entropy_forward(rows, classes, logits, target, row_sums);
}
CrossEntropyResult cross_entropy_forward(std::int64_t rows, std::int64_t classes,
                                         const double* logits, const std::int64_t* target,
                                         double* row_sums) {
  return entropy_forward(rows, classes, logits, target, row_sums);
}
void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const float* logits,
                            const std::int64_t* target, const float* row_sums, float scale,
                            float* dlogits) {
  entropy_backward(rows, classes, logits, target, row_sums, scale, dlogits);
}
void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const double* logits,
                            const std::int64_t* target, const double* row_sums, double scale,
                            double* dlogits) {
  entropy_backward(rows, classes, logits, target, row_sums, scale, dlogits);
}
double mse_forward(std::int64_t n, const float* x, const float* y) {
  return mean_squared_error(n, x, y);
}
double mse_forward(std::int64_t n, const double* x, const double* y) {
  return mean_squared_error(n, x, y);
}
void mse_backward(std::int64_t n, const float* x, const float* y, float scale, float* d) {
  scaled_difference(n, x, y, scale, d);
}
void mse_backward(std::int64_t n, const double* x, const double* y, double scale, double* d) {
  scaled_difference(n, x, y, scale, d);
}

}  // namespace dl::kernels
#endif
