#include "core/kernels/declared/linear.h"

#include <algorithm>
#include <array>

#include "core/device/parallel.h"
#include "core/kernels/cpu/common/dense_runs.h"
#include "core/kernels/cpu/common/half_width.h"
#include "core/kernels/cpu/linear/gemm.h"
#include "core/kernels/declared/elementwise.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kColumnsAtOnce = 64;  // sums of one pass

// to[i] = (or +=) the sum of column i, computed in T. Blocks of rows have their own sums, so that
// the rounding error does not grow with the number of rows.
template <typename T, typename Stored>
void sum_columns(std::int64_t rows, std::int64_t row, const Stored* from, std::int64_t columns,
                 bool accumulate, Stored* to) {
  constexpr std::int64_t kRows = 128;
  std::array<T, kColumnsAtOnce> total{};
  for (std::int64_t first = 0; first < rows; first += kRows) {
    std::array<T, kColumnsAtOnce> sums{};
    for (std::int64_t r = first; r < std::min(rows, first + kRows); ++r) {
      for (std::int64_t i = 0; i < columns; ++i) {
        sums[static_cast<std::size_t>(i)] += static_cast<T>(from[r * row + i]);
      }
    }
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
  }
  for (std::int64_t i = 0; i < columns; ++i) {
    const T before = accumulate ? static_cast<T>(to[i]) : T{0};
    to[i] = static_cast<Stored>(before + total[static_cast<std::size_t>(i)]);
  }
}

// A product with the transpose of the weight, [out, in].
template <typename T>
Gemm<T> product_of(const Tensor& x, const Tensor& weight, const Tensor& y) {
  const std::int64_t in = std::max<std::int64_t>(1, x.size(1));
  return {.m = x.size(0),
          .n = weight.size(0),
          .k = x.size(1),
          .a = x.data<T>(),
          .lda = in,
          .b = weight.data<T>(),
          .ldb = in,
          .transpose_b = true,
          .c = y.data<T>(),
          .ldc = std::max<std::int64_t>(1, weight.size(0))};
}

// x weight^T + bias, and its ReLU.
void affine_map(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu,
                const Tensor& y) {
  if (x.dtype() == DType::kBF16 &&
      gemm({.first = product_of<BFloat16>(x, weight, y),
            .bias = bias.defined() ? bias.data<BFloat16>() : nullptr})) {
    if (relu) unary(UnaryFn::kRelu, y, {}, y);
    return;
  }
  if (is_half_width(x)) {
    const Tensor wide = wide_like(y);
    affine_map(widened(x), widened(weight), widened(bias), relu, wide);
    return round_into(wide, y);
  }
  visit_f32_f64(x, "linear", [&]<typename T>() {
    const Gemm<T> g = product_of<T>(x, weight, y);
    gemm_with_bias<T>(g, bias.defined() ? bias.data<T>() : nullptr);
    if (relu) relu_in_place(g.m * g.n, g.c);
  });
}

template <typename T, typename Stored>
void bias_gradient_in(const Tensor& dy, bool accumulate, const Tensor& dbias) {
  const std::int64_t rows = dy.size(0);
  const std::int64_t out = dy.size(1);
  const std::int64_t grain =
      std::max<std::int64_t>(kColumnsAtOnce, 32 * 1024 / std::max<std::int64_t>(1, rows));
  parallel_for(out, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kColumnsAtOnce) {
      sum_columns<T>(rows, out, dy.data<Stored>() + i, std::min(kColumnsAtOnce, end - i),
                     accumulate, dbias.data<Stored>() + i);
    }
  });
}

// Writes or adds the column sums of dy to dbias.
void bias_gradient(const Tensor& dy, bool accumulate, const Tensor& dbias) {
  if (dy.dtype() == DType::kBF16) return bias_gradient_in<float, BFloat16>(dy, accumulate, dbias);
  if (is_half_width(dy)) {
    const Tensor wide = accumulate ? widened(dbias) : wide_like(dbias);
    bias_gradient(widened(dy), accumulate, wide);
    return round_into(wide, dbias);
  }
  visit_f32_f64(dy, "linear", [&]<typename T>() { bias_gradient_in<T, T>(dy, accumulate, dbias); });
}

}  // namespace

bool linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
            const Tensor& kept, const Tensor& y) {
  if (activation != Activation::kGeluTanh) {
    affine_map(x, weight, bias, activation == Activation::kRelu, y);
    return false;
  }
  const Tensor& before = kept.defined() ? kept : y;
  affine_map(x, weight, bias, false, before);
  unary(UnaryFn::kGeluTanh, before, {}, y);
  return true;
}

void linear_backward_input(const Tensor& dy, const Tensor& weight, Activation activation,
                           const Tensor& seen, const Tensor&, const Tensor& dx) {
  matmul(dy, weight, false, dx);
  if (activation != Activation::kNone) unary_backward(unary_of(activation), dx, seen, {}, dx);
}

void linear_backward_weight(const Tensor& dy, const Tensor& x, bool accumulate,
                            const Tensor& dweight, bool accumulate_bias, const Tensor& dbias) {
  if (dbias.defined()) bias_gradient(dy, accumulate_bias, dbias);
  if (!dweight.defined()) return;
  const Tensor by_columns =
      as_strided(dy, {dy.size(1), dy.size(0)}, {1, std::max<std::int64_t>(1, dy.size(1))},
                 dy.storage_offset());
  matmul(by_columns, x, accumulate, dweight);
}

}  // namespace dl::kernels::cpu
