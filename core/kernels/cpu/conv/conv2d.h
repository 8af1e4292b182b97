// 2-d convolution (mathematically a cross-correlation) on plain memory.
//
//   x        [n, c_in, h, w]              channels-last in memory: [n][h][w][c]
//   weight   [c_out, c_in/groups, kh, kw] row-major in memory
//   bias     [c_out], or null
//   y        [n, c_out, out_h, out_w]     channels-last in memory
//
// f32 runs in oneDNN, except for inputs of few channels (there oneDNN's channels-last kernels fall
// back to reference code, and ours reads the image directly), large 3x3 windows (Winograd) and the
// weight gradient of depthwise convolutions. f64 is for gradient checks: simple loops. Results have
// the same bits on every run with the same number of threads.
//
// Algorithms round differently, but which results and gradients are finite, infinite or NaN always
// follows the definition; padding contributes nothing, not even 0 times infinity. NaN stays NaN
// through `relu`.
#pragma once

#include <cstdint>

#include "core/args/window_args.h"
#include "core/tensor/half.h"

namespace dl::kernels {

struct Conv2dShape {
  std::int64_t n = 0, c_in = 0, h = 0, w = 0;
  std::int64_t c_out = 0, kh = 0, kw = 0;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;  // zeros on each side
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;

  std::int64_t out_h() const noexcept { return window_count(h, kh, stride_h, pad_h, dilation_h); }
  std::int64_t out_w() const noexcept { return window_count(w, kw, stride_w, pad_w, dilation_w); }
  std::int64_t taps() const noexcept { return c_in / groups * kh * kw; }
  friend bool operator==(const Conv2dShape&, const Conv2dShape&) noexcept = default;
};

// With `relu`, y = max(0, convolution + bias); dlrun's own kernels fuse it.
void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias,
                    bool relu, float* y);
void conv2d_forward(const Conv2dShape& s, const double* x, const double* weight, const double* bias,
                    bool relu, double* y);

// Writes dx, shaped like x; does not accumulate.
void conv2d_backward_data(const Conv2dShape& s, const float* dy, const float* weight, float* dx);
void conv2d_backward_data(const Conv2dShape& s, const double* dy, const double* weight, double* dx);

// Writes dweight and dbias (or null), shaped like weight and bias; does not accumulate.
void conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy, float* dweight,
                             float* dbias);
void conv2d_backward_weights(const Conv2dShape& s, const double* x, const double* dy,
                             double* dweight, double* dbias);

// The same in bfloat16, with sums in float32 that are rounded once. They return false, and compute
// nothing, if the CPU or oneDNN has nothing for it that is faster than float32.
bool conv2d_forward(const Conv2dShape& s, const BFloat16* x, const BFloat16* weight,
                    const BFloat16* bias, BFloat16* y);
bool conv2d_backward_data(const Conv2dShape& s, const BFloat16* dy, const BFloat16* weight,
                          BFloat16* dx);
bool conv2d_backward_weights(const Conv2dShape& s, const BFloat16* x, const BFloat16* dy,
                             BFloat16* dweight, BFloat16* dbias);

// The individual kernels, for tests and for each other.
bool conv2d_is_thin(const Conv2dShape& s) noexcept;
void thin_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight,
                         const float* bias, bool relu, float* y);
void thin_conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy,
                                  float* dweight, float* dbias);
// True for at least 16 channels, each convolved with its own window of at most 7 columns.
bool conv2d_is_depthwise(const Conv2dShape& s) noexcept;
void depthwise_conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy,
                                       float* dweight, float* dbias);
void depthwise_conv2d_backward_weights(const Conv2dShape& s, const BFloat16* x, const BFloat16* dy,
                                       BFloat16* dweight, BFloat16* dbias);
// True if Winograd is the fastest. It can compute any 3x3 window with stride and dilation 1, one
// group and padding of at most 2. `tile`, 2 or 4, is the size of a tile of the output;
// winograd_tile() is the faster one. bfloat16 is read and rounded, and computed in float32; false:
// a result is not finite, and some may be wrong.
bool conv2d_is_winograd(const Conv2dShape& s) noexcept;
int winograd_tile(const Conv2dShape& s) noexcept;
void winograd_conv2d_forward(int tile, const Conv2dShape& s, const float* x, const float* weight,
                             const float* bias, bool relu, float* y);
bool winograd_conv2d_forward(int tile, const Conv2dShape& s, const BFloat16* x,
                             const BFloat16* weight, const BFloat16* bias, BFloat16* y);
void winograd_conv2d_backward_data(int tile, const Conv2dShape& s, const float* dy,
                                   const float* weight, float* dx);
bool winograd_conv2d_backward_data(int tile, const Conv2dShape& s, const BFloat16* dy,
                                   const BFloat16* weight, BFloat16* dx);
void winograd_conv2d_backward_weights(int tile, const Conv2dShape& s, const float* x,
                                      const float* dy, float* dweight, float* dbias);
bool winograd_conv2d_backward_weights(int tile, const Conv2dShape& s, const BFloat16* x,
                                      const BFloat16* dy, BFloat16* dweight, BFloat16* dbias);

}  // namespace dl::kernels
