#include "core/kernels/cpu/network.h"

#include <algorithm>
#include <array>

#include "core/device/parallel.h"
#include "core/kernels/cpu/common/relu.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "core/kernels/cpu/copy/half_width.h"
#include "core/kernels/cpu/elementwise/elementwise.h"
#include "core/kernels/cpu/linear/gemm.h"
#include "core/kernels/cpu/loss/loss.h"
#include "core/kernels/cpu/pool/max_pool2d.h"

namespace dl::kernels::cpu {
namespace {

// Calls body<float>() or body<double>().
template <typename Body>
decltype(auto) visit_f32_f64(const Tensor& tensor, std::string_view op, const Body& body) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return body.template operator()<float>();
    case DType::kF64:
      return body.template operator()<double>();
    default:
      refuse_dtype(op, tensor.dtype(), "a floating dtype");
  }
}

template <typename T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

Conv2dShape conv_shape(const Shape& x, const Shape& weight, const Conv2dArgs& args) {
  return {.n = x[0],
          .c_in = x[1],
          .h = x[2],
          .w = x[3],
          .c_out = weight[0],
          .kh = weight[2],
          .kw = weight[3],
          .stride_h = args.stride[0],
          .stride_w = args.stride[1],
          .pad_h = args.padding[0],
          .pad_w = args.padding[1],
          .dilation_h = args.dilation[0],
          .dilation_w = args.dilation[1],
          .groups = args.groups};
}

Pool2dShape pool_shape(const Shape& x, const MaxPool2dArgs& args) {
  return {.n = x[0],
          .c = x[1],
          .h = x[2],
          .w = x[3],
          .kh = args.kernel[0],
          .kw = args.kernel[1],
          .stride_h = args.stride[0],
          .stride_w = args.stride[1],
          .pad_h = args.padding[0],
          .pad_w = args.padding[1],
          .dilation_h = args.dilation[0],
          .dilation_w = args.dilation[1],
          .ceil_mode = args.ceil_mode,
          .relu = args.relu};
}

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

constexpr std::int64_t kColumnsAtOnce = 64;  // sums that are carried at once

// to[i] = (or +=) the sum of column i. Blocks of rows are summed on their own, so that the rounding
// error of many rows stays that of a block.
template <typename T>
void sum_columns(std::int64_t rows, std::int64_t row, const T* from, std::int64_t columns,
                 bool accumulate, T* to) {
  constexpr std::int64_t kRows = 128;
  std::array<T, kColumnsAtOnce> total{};
  for (std::int64_t first = 0; first < rows; first += kRows) {
    std::array<T, kColumnsAtOnce> sums{};
    for (std::int64_t r = first; r < std::min(rows, first + kRows); ++r) {
      for (std::int64_t i = 0; i < columns; ++i) {
        sums[static_cast<std::size_t>(i)] += from[r * row + i];
      }
    }
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
  }
  for (std::int64_t i = 0; i < columns; ++i) {
    to[i] = (accumulate ? to[i] : T{0}) + total[static_cast<std::size_t>(i)];
  }
}

}  // namespace

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dArgs& args,
            const Tensor& y) {
  if (is_half_width(x)) {
    const Tensor wide = wide_like(y);
    conv2d(widened(x), widened(weight), widened(bias), args, wide);
    return round_into(wide, y);
  }
  visit_f32_f64(x, "conv2d", [&]<typename T>() {
    conv2d_forward(conv_shape(x.sizes(), weight.sizes(), args), x.data<T>(), weight.data<T>(),
                   data_or_null<T>(bias), args.relu, y.data<T>());
  });
}

void conv2d_backward_data(const Tensor& dy, const Tensor& weight, const Conv2dArgs& args,
                          const Tensor& dx) {
  if (is_half_width(dy)) {
    const Tensor wide = wide_like(dx);
    conv2d_backward_data(widened(dy), widened(weight), args, wide);
    return round_into(wide, dx);
  }
  visit_f32_f64(dy, "conv2d", [&]<typename T>() {
    kernels::conv2d_backward_data(conv_shape(dx.sizes(), weight.sizes(), args), dy.data<T>(),
                                  weight.data<T>(), dx.data<T>());
  });
}

void conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Conv2dArgs& args,
                            const Tensor& dweight, const Tensor& dbias) {
  if (is_half_width(x)) {
    const Tensor wide_weight = wide_like(dweight);
    const Tensor wide_bias = wide_like(dbias);
    conv2d_backward_weight(widened(x), widened(dy), args, wide_weight, wide_bias);
    round_into(wide_weight, dweight);
    return round_into(wide_bias, dbias);
  }
  visit_f32_f64(x, "conv2d", [&]<typename T>() {
    conv2d_backward_weights(conv_shape(x.sizes(), dweight.sizes(), args), x.data<T>(), dy.data<T>(),
                            dweight.data<T>(), data_or_null<T>(dbias));
  });
}

void max_pool2d(const Tensor& x, const MaxPool2dArgs& args, const Tensor& y, const Tensor& winner) {
  if (is_half_width(x)) {
    const Tensor wide = wide_like(y);
    max_pool2d(widened(x), args, wide, winner);
    return round_into(wide, y);
  }
  visit_f32_f64(x, "max_pool2d", [&]<typename T>() {
    max_pool2d_forward(pool_shape(x.sizes(), args), x.data<T>(), y.data<T>(),
                       winner.data<std::uint16_t>());
  });
}

void max_pool2d_backward(const Tensor& dy, const Tensor& winner, const MaxPool2dArgs& args,
                         const Tensor& dx) {
  if (is_half_width(dy)) {
    const Tensor wide = wide_like(dx);
    max_pool2d_backward(widened(dy), winner, args, wide);
    return round_into(wide, dx);
  }
  visit_f32_f64(dy, "max_pool2d", [&]<typename T>() {
    kernels::max_pool2d_backward(pool_shape(dx.sizes(), args), dy.data<T>(),
                                 winner.data<std::uint16_t>(), dx.data<T>());
  });
}

void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c) {
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
  if (is_half_width(a)) {
    const Tensor wide = wide_like(c);
    matmul_batch(widened(a), widened(b), wide);
    return round_into(wide, c);
  }
  const std::int64_t count = c.size(0);
  if (count == 0) return;
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

namespace {

// x weight^T + bias, and its ReLU.
void affine_map(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu,
                const Tensor& y) {
  if (is_half_width(x)) {
    const Tensor wide = wide_like(y);
    affine_map(widened(x), widened(weight), widened(bias), relu, wide);
    return round_into(wide, y);
  }
  visit_f32_f64(x, "linear", [&]<typename T>() {
    const std::int64_t rows = x.size(0);
    const std::int64_t in = x.size(1);
    const std::int64_t out = weight.size(0);
    T* to = y.data<T>();
    if (bias.defined()) {
      for (std::int64_t r = 0; r < rows; ++r) std::copy_n(bias.data<T>(), out, to + r * out);
    }
    gemm(Gemm<T>{.m = rows,
                 .n = out,
                 .k = in,
                 .a = x.data<T>(),
                 .lda = std::max<std::int64_t>(1, in),
                 .b = weight.data<T>(),
                 .ldb = std::max<std::int64_t>(1, in),
                 .transpose_b = true,
                 .c = to,
                 .ldc = std::max<std::int64_t>(1, out),
                 .accumulate = bias.defined()});
    if (relu) relu_in_place(rows * out, to);
  });
}

// The columns' sums of dy, written or added to dbias.
void bias_gradient(const Tensor& dy, bool accumulate, const Tensor& dbias) {
  if (is_half_width(dy)) {
    const Tensor wide = accumulate ? widened(dbias) : wide_like(dbias);
    bias_gradient(widened(dy), accumulate, wide);
    return round_into(wide, dbias);
  }
  visit_f32_f64(dy, "linear", [&]<typename T>() {
    const std::int64_t rows = dy.size(0);
    const std::int64_t out = dy.size(1);
    const std::int64_t grain =
        std::max<std::int64_t>(kColumnsAtOnce, 32 * 1024 / std::max<std::int64_t>(1, rows));
    parallel_for(out, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kColumnsAtOnce) {
        sum_columns(rows, out, dy.data<T>() + i, std::min(kColumnsAtOnce, end - i), accumulate,
                    dbias.data<T>() + i);
      }
    });
  });
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

std::int64_t cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                           const Tensor& row_sums, const Tensor& counted) {
  if (is_half_width(logits)) {
    const Tensor wide_loss = wide_like(loss);
    const Tensor wide_sums = wide_like(row_sums);
    const std::int64_t bad = cross_entropy(widened(logits), target, wide_loss, wide_sums, counted);
    round_into(wide_loss, loss);
    round_into(wide_sums, row_sums);
    return bad;
  }
  return visit_f32_f64(logits, "cross_entropy", [&]<typename T>() {
    const CrossEntropyResult result =
        cross_entropy_forward(logits.size(0), logits.size(1), logits.data<T>(),
                              target.data<std::int64_t>(), row_sums.data<T>());
    *loss.data<T>() = static_cast<T>(result.loss);
    *counted.data<std::int64_t>() = result.counted;
    return result.bad_row;
  });
}

void cross_entropy_backward(const Tensor& grad, const Tensor& logits, const Tensor& target,
                            const Tensor& row_sums, const Tensor& counted, const Tensor& dlogits) {
  if (is_half_width(logits)) {
    const Tensor wide = wide_like(dlogits);
    cross_entropy_backward(widened(grad), widened(logits), target, widened(row_sums), counted,
                           wide);
    return round_into(wide, dlogits);
  }
  visit_f32_f64(logits, "cross_entropy", [&]<typename T>() {
    const T scale = *grad.data<T>() / static_cast<T>(*counted.data<std::int64_t>());
    kernels::cross_entropy_backward(logits.size(0), logits.size(1), logits.data<T>(),
                                    target.data<std::int64_t>(), row_sums.data<T>(), scale,
                                    dlogits.data<T>());
  });
}

void mse_loss(const Tensor& input, const Tensor& target, const Tensor& loss) {
  if (is_half_width(input)) {
    const Tensor wide = wide_like(loss);
    mse_loss(widened(input), widened(target), wide);
    return round_into(wide, loss);
  }
  visit_f32_f64(input, "mse_loss", [&]<typename T>() {
    *loss.data<T>() = static_cast<T>(mse_forward(input.numel(), input.data<T>(), target.data<T>()));
  });
}

void mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, double sign,
                       const Tensor& d) {
  if (is_half_width(input)) {
    const Tensor wide = wide_like(d);
    mse_loss_backward(widened(grad), widened(input), widened(target), sign, wide);
    return round_into(wide, d);
  }
  visit_f32_f64(input, "mse_loss", [&]<typename T>() {
    const double scale = sign * 2 / static_cast<double>(input.numel()) * *grad.data<T>();
    mse_backward(input.numel(), input.data<T>(), target.data<T>(), static_cast<T>(scale),
                 d.data<T>());
  });
}

}  // namespace dl::kernels::cpu
