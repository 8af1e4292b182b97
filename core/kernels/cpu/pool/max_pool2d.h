// 2-d max pooling on plain channels-last memory.
//
//   x       [n, c, h, w]           channels-last in memory: [n][h][w][c]
//   y       [n, c, out_h, out_w]   channels-last in memory
//   winner  shaped like y: the element of the window (ky * kw + kx) that is the output and gets its
//           gradient; 65535: none
//
// As in PyTorch, the first of equal elements wins, the last NaN wins over all numbers, padding
// never wins, and a window entirely in the padding gives minus infinity. Supports f32 and f64, and
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
  // Fuses the preceding ReLU: max(0, maximum), except for empty windows. Four times cheaper than
  // two passes. An output of 0 has no winner, because the ReLU's gradient is 0.
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

// Writes dx; does not accumulate.
void max_pool2d_backward(const Pool2dShape& s, const float* dy, const std::uint16_t* winner,
                         float* dx);
void max_pool2d_backward(const Pool2dShape& s, const double* dy, const std::uint16_t* winner,
                         double* dx);

}  // namespace dl::kernels
