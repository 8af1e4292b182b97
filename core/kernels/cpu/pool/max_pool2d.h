// 2-d max pooling on plain channels-last memory.
//
//   x       [n, c, h, w]           channels-last in memory: [n][h][w][c]
//   y       [n, c, out_h, out_w]   channels-last in memory
//   winner  as y: which element of its window (ky * kw + kx) each output came from, and so gets its
//           gradient; 65535 if none does
//
// As in PyTorch the first of equal elements wins, the last NaN wins over everything, padding never
// wins, and a window that lies in the padding altogether gives minus infinity. Serves f32 and f64;
// windows of up to 65,535 elements.
#pragma once

#include <cstdint>

#include "core/args/window_args.h"

namespace dl::kernels {

struct Pool2dShape {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t kh = 0, kw = 0;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;  // at most half the window
  std::int64_t dilation_h = 1, dilation_w = 1;
  bool ceil_mode = false;
  // The maximum over a ReLU's output: max(0, .), but where a window is empty. Four times cheaper.
  // An output of 0 has no winner, as the ReLU passes no gradient on there.
  bool relu = false;

  std::int64_t out_h() const noexcept {
    return window_count(h, kh, stride_h, pad_h, dilation_h, ceil_mode);
  }
  std::int64_t out_w() const noexcept {
    return window_count(w, kw, stride_w, pad_w, dilation_w, ceil_mode);
  }
};

void max_pool2d_forward(const Pool2dShape& s, const float* x, float* y, std::uint16_t* winner);
void max_pool2d_forward(const Pool2dShape& s, const double* x, double* y, std::uint16_t* winner);

// dx is written, not added to.
void max_pool2d_backward(const Pool2dShape& s, const float* dy, const std::uint16_t* winner,
                         float* dx);
void max_pool2d_backward(const Pool2dShape& s, const double* dy, const std::uint16_t* winner,
                         double* dx);

}  // namespace dl::kernels
