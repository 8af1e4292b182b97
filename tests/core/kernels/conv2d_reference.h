// Convolution by its definition, for tests: one output at a time; a pixel outside the image takes
// no part.
#pragma once

#include <cstdint>
#include <ostream>

#include "core/kernels/cpu/conv/conv2d.h"

namespace dl::kernels {

inline void PrintTo(const Conv2dShape& s, std::ostream* os) {
  *os << s.n << 'x' << s.c_in << 'x' << s.h << 'x' << s.w << " by " << s.c_out << 'x' << s.kh << 'x'
      << s.kw << " stride " << s.stride_h << ',' << s.stride_w << " pad " << s.pad_h << ','
      << s.pad_w << " dilation " << s.dilation_h << ',' << s.dilation_w << " groups " << s.groups;
}

// The kernels under test.
template <typename T>
struct Kernels {
  void (*forward)(const Conv2dShape&, const T*, const T*, const T*, bool, T*) = conv2d_forward;
  void (*backward_data)(const Conv2dShape&, const T*, const T*, T*) = conv2d_backward_data;
  void (*backward_weights)(const Conv2dShape&, const T*, const T*, T*,
                           T*) = conv2d_backward_weights;
};

template <int kTile>
inline const Kernels<float> kWinograd{
    .forward = [](auto... args) { winograd_conv2d_forward(kTile, args...); },
    .backward_data = [](auto... args) { winograd_conv2d_backward_data(kTile, args...); },
    .backward_weights = [](auto... args) { winograd_conv2d_backward_weights(kTile, args...); }};

struct Reference {
  explicit Reference(const Conv2dShape& shape) : s(shape) {}

  std::int64_t x_at(std::int64_t n, std::int64_t c, std::int64_t iy, std::int64_t ix) const {
    return iy < 0 || iy >= s.h || ix < 0 || ix >= s.w ? -1
                                                      : ((n * s.h + iy) * s.w + ix) * s.c_in + c;
  }
  std::int64_t y_at(std::int64_t n, std::int64_t o, std::int64_t oy, std::int64_t ox) const {
    return ((n * s.out_h() + oy) * s.out_w() + ox) * s.c_out + o;
  }
  std::int64_t tap(std::int64_t n, std::int64_t o, std::int64_t oy, std::int64_t ox, std::int64_t i,
                   std::int64_t ky, std::int64_t kx) const {
    return x_at(n, o / (s.c_out / s.groups) * (s.c_in / s.groups) + i,
                oy * s.stride_h + ky * s.dilation_h - s.pad_h,
                ox * s.stride_w + kx * s.dilation_w - s.pad_w);
  }
  // Calls visit(x index or -1, y index, weight index).
  template <typename Visit>
  void each(const Visit& visit) const {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t o = 0; o < s.c_out; ++o)
        for (std::int64_t oy = 0; oy < s.out_h(); ++oy)
          for (std::int64_t ox = 0; ox < s.out_w(); ++ox)
            for (std::int64_t i = 0; i < s.c_in / s.groups; ++i)
              for (std::int64_t ky = 0; ky < s.kh; ++ky)
                for (std::int64_t kx = 0; kx < s.kw; ++kx)
                  visit(tap(n, o, oy, ox, i, ky, kx), y_at(n, o, oy, ox),
                        ((o * (s.c_in / s.groups) + i) * s.kh + ky) * s.kw + kx);
  }

  Conv2dShape s;
};

}  // namespace dl::kernels
