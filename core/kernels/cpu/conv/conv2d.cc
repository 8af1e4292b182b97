#include "core/kernels/cpu/conv/conv2d.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/kernels/cpu/common/dense_runs.h"
#include "core/kernels/cpu/conv/conv2d_direct.h"
#include "core/kernels/cpu/conv/conv2d_dnnl.h"
#include "core/kernels/cpu/linear/gemm.h"

namespace dl::kernels {
namespace {

constexpr int kTileInBf16 = 4;

// Calls visit(x index, y index, weight index) for every product of the convolution.
template <typename Visit>
void for_each_product(const Conv2dShape& s, const Visit& visit) {
  const std::int64_t in = s.c_in / s.groups;
  const std::int64_t out = s.c_out / s.groups;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t oy = 0; oy < oh; ++oy) {
      for (std::int64_t ox = 0; ox < ow; ++ox) {
        for (std::int64_t ky = 0; ky < s.kh; ++ky) {
          const std::int64_t iy = oy * s.stride_h - s.pad_h + ky * s.dilation_h;
          if (iy < 0 || iy >= s.h) continue;
          for (std::int64_t kx = 0; kx < s.kw; ++kx) {
            const std::int64_t ix = ox * s.stride_w - s.pad_w + kx * s.dilation_w;
            if (ix < 0 || ix >= s.w) continue;
            const std::int64_t x_pixel = ((n * s.h + iy) * s.w + ix) * s.c_in;
            const std::int64_t y_pixel = ((n * oh + oy) * ow + ox) * s.c_out;
            for (std::int64_t o = 0; o < s.c_out; ++o) {
              for (std::int64_t i = 0; i < in; ++i) {
                visit(x_pixel + o / out * in + i, y_pixel + o,
                      ((o * in + i) * s.kh + ky) * s.kw + kx);
              }
            }
          }
        }
      }
    }
  }
}

std::int64_t pixels_out(const Conv2dShape& s) noexcept {
  return s.n * s.out_h() * s.out_w();
}

// 1x1 windows: pixels times the weight, [c_out, c_in]. For few pixels a product is faster, because
// oneDNN's convolution first brings the weight into an order of its own.
bool is_product(const Conv2dShape& s) noexcept {
  constexpr std::int64_t kFewPixels = 1024;
  return s.kh == 1 && s.kw == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_h == 0 &&
         s.pad_w == 0 && s.groups == 1 && pixels_out(s) <= kFewPixels;
}

// Winograd's larger tiles outrun the CPU's instructions for bfloat16; its smaller ones do not.
bool is_winograd_in_bf16(const Conv2dShape& s) noexcept {
  return conv2d_is_winograd(s) && winograd_tile(s) == kTileInBf16;
}

template <typename T>
Gemm<T> forward_product(const Conv2dShape& s, const T* x, const T* weight, T* y) {
  return {.m = pixels_out(s),
          .n = s.c_out,
          .k = s.c_in,
          .a = x,
          .lda = s.c_in,
          .b = weight,
          .ldb = s.c_in,
          .transpose_b = true,
          .c = y,
          .ldc = s.c_out};
}

template <typename T>
Gemm<T> data_product(const Conv2dShape& s, const T* dy, const T* weight, T* dx) {
  return {.m = pixels_out(s),
          .n = s.c_in,
          .k = s.c_out,
          .a = dy,
          .lda = s.c_out,
          .b = weight,
          .ldb = s.c_in,
          .c = dx,
          .ldc = s.c_in};
}

template <typename T>
Gemm<T> weights_product(const Conv2dShape& s, const T* x, const T* dy, T* dweight) {
  return {.m = s.c_out,
          .n = s.c_in,
          .k = pixels_out(s),
          .a = dy,
          .lda = s.c_out,
          .transpose_a = true,
          .b = x,
          .ldb = s.c_in,
          .c = dweight,
          .ldc = s.c_in};
}

void sum_pixels(const Conv2dShape& s, const float* dy, float* dbias) {
  std::vector<double> sums(static_cast<std::size_t>(s.c_out));
  for (std::int64_t p = 0; p < pixels_out(s); ++p) {
    for (std::int64_t o = 0; o < s.c_out; ++o) {
      sums[static_cast<std::size_t>(o)] += static_cast<double>(dy[p * s.c_out + o]);
    }
  }
  std::ranges::transform(sums, dbias, [](double sum) { return static_cast<float>(sum); });
}

}  // namespace

bool conv2d_forward(const Conv2dShape& s, const BFloat16* x, const BFloat16* weight,
                    const BFloat16* bias, BFloat16* y) {
  // oneDNN multiplies pairs of channels, and would complete one channel by the next pixel.
  const bool is_depthwise = s.groups > 1 && s.c_in == s.groups && s.c_out == s.groups;
  if (s.c_in == s.groups && !is_depthwise) return false;
  if (is_winograd_in_bf16(s)) {
    return winograd_conv2d_forward(kTileInBf16, s, x, weight, bias, y);
  }
  if (is_product(s)) return gemm({.first = forward_product(s, x, weight, y), .bias = bias});
  return s.n == 0 || dnnl_conv2d_forward(s, x, weight, bias, y) != DnnlConv2d::kNone;
}

bool conv2d_backward_data(const Conv2dShape& s, const BFloat16* dy, const BFloat16* weight,
                          BFloat16* dx) {
  if (is_winograd_in_bf16(s)) {
    return winograd_conv2d_backward_data(kTileInBf16, s, dy, weight, dx);
  }
  if (is_product(s)) return gemm({.first = data_product(s, dy, weight, dx)});
  return s.n == 0 || dnnl_conv2d_backward_data(s, dy, weight, dx) != DnnlConv2d::kNone;
}

bool conv2d_backward_weights(const Conv2dShape& s, const BFloat16* x, const BFloat16* dy,
                             BFloat16* dweight, BFloat16* dbias) {
  if (s.n == 0) return false;
  if (conv2d_is_depthwise(s)) {
    depthwise_conv2d_backward_weights(s, x, dy, dweight, dbias);
    return true;
  }
  if (is_winograd_in_bf16(s)) {
    return winograd_conv2d_backward_weights(kTileInBf16, s, x, dy, dweight, dbias);
  }
  if (is_product(s) && dbias == nullptr) {
    return gemm({.first = weights_product(s, x, dy, dweight)});
  }
  // oneDNN 2.6 reads beyond rows that are narrower than the stride.
  if (s.w < s.stride_w) return false;
  if (dnnl_conv2d_backward_weights(s, x, dy, dweight, dbias) == DnnlConv2d::kNone) return false;
  // It multiplies pairs of pixels, and the padding completes the last pair of a row.
  return all_finite(dweight, s.c_out * s.taps());
}

void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias,
                    bool relu, float* y) {
  if (s.n == 0) return;
  if (conv2d_is_thin(s)) return thin_conv2d_forward(s, x, weight, bias, relu, y);
  if (conv2d_is_winograd(s))
    return winograd_conv2d_forward(winograd_tile(s), s, x, weight, bias, relu, y);
  if (is_product(s)) {
    gemm_with_bias(forward_product(s, x, weight, y), bias);
  } else if (dnnl_conv2d_forward(s, x, weight, bias, y) == DnnlConv2d::kMultipliedPadding) {
    direct_conv2d_mend_border(s, x, weight, bias, y);
  }
  if (relu) relu_in_place(pixels_out(s) * s.c_out, y);
}

void conv2d_backward_data(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  if (s.n == 0) return;
  if (conv2d_is_winograd(s))
    return winograd_conv2d_backward_data(winograd_tile(s), s, dy, weight, dx);
  if (is_product(s)) return gemm(data_product(s, dy, weight, dx));
  dnnl_conv2d_backward_data(s, dy, weight, dx);
}

void conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy, float* dweight,
                             float* dbias) {
  if (s.n == 0) {
    std::fill_n(dweight, s.c_out * s.taps(), 0.0F);
    if (dbias != nullptr) std::fill_n(dbias, s.c_out, 0.0F);
    return;
  }
  if (conv2d_is_depthwise(s)) return depthwise_conv2d_backward_weights(s, x, dy, dweight, dbias);
  if (conv2d_is_thin(s)) return thin_conv2d_backward_weights(s, x, dy, dweight, dbias);
  if (conv2d_is_winograd(s))
    return winograd_conv2d_backward_weights(winograd_tile(s), s, x, dy, dweight, dbias);
  if (is_product(s)) {
    if (dbias != nullptr) sum_pixels(s, dy, dbias);
    return gemm(weights_product(s, x, dy, dweight));
  }
  if (dnnl_conv2d_backward_weights(s, x, dy, dweight, dbias) == DnnlConv2d::kMultipliedPadding) {
    direct_conv2d_mend_weights(s, x, dy, dweight);
  }
}

void conv2d_forward(const Conv2dShape& s, const double* x, const double* weight, const double* bias,
                    bool relu, double* y) {
  const std::int64_t pixels = pixels_out(s);
  for (std::int64_t p = 0; p < pixels; ++p) {
    if (bias != nullptr) {
      std::copy_n(bias, s.c_out, y + p * s.c_out);
    } else {
      std::fill_n(y + p * s.c_out, s.c_out, 0.0);
    }
  }
  for_each_product(
      s, [&](std::int64_t xi, std::int64_t yi, std::int64_t wi) { y[yi] += x[xi] * weight[wi]; });
  if (relu) relu_in_place(pixels * s.c_out, y);
}

void conv2d_backward_data(const Conv2dShape& s, const double* dy, const double* weight,
                          double* dx) {
  std::fill_n(dx, s.n * s.c_in * s.h * s.w, 0.0);
  for_each_product(
      s, [&](std::int64_t xi, std::int64_t yi, std::int64_t wi) { dx[xi] += dy[yi] * weight[wi]; });
}

void conv2d_backward_weights(const Conv2dShape& s, const double* x, const double* dy,
                             double* dweight, double* dbias) {
  std::fill_n(dweight, s.c_out * s.taps(), 0.0);
  for_each_product(
      s, [&](std::int64_t xi, std::int64_t yi, std::int64_t wi) { dweight[wi] += dy[yi] * x[xi]; });
  if (dbias == nullptr) return;
  std::fill_n(dbias, s.c_out, 0.0);
  const std::int64_t pixels = pixels_out(s);
  for (std::int64_t p = 0; p < pixels; ++p) {
    for (std::int64_t o = 0; o < s.c_out; ++o) dbias[o] += dy[p * s.c_out + o];
  }
}

}  // namespace dl::kernels
