#include "core/kernels/cpu/max_pool2d.h"

#include <algorithm>
#include <limits>

#include "core/device/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/max_pool2d.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#ifndef DLRUN_CORE_KERNELS_CPU_MAX_POOL2D_
#define DLRUN_CORE_KERNELS_CPU_MAX_POOL2D_
namespace dl::kernels {
namespace {

// The part of one output pixel's window that lies inside the image.
struct Window {
  Window(const Pool2dShape& s, std::int64_t oy, std::int64_t ox)
      : y0(oy * s.stride_h - s.pad_h), x0(ox * s.stride_w - s.pad_w) {
    clip(y0, s.h, s.kh, s.dilation_h, ky_begin, ky_end);
    clip(x0, s.w, s.kw, s.dilation_w, kx_begin, kx_end);
  }
  static void clip(std::int64_t start, std::int64_t size, std::int64_t k, std::int64_t dilation,
                   std::int64_t& begin, std::int64_t& end) {
    begin = start < 0 ? (-start + dilation - 1) / dilation : 0;
    end = size > start ? std::min(k, (size - start + dilation - 1) / dilation) : 0;
    end = std::max(begin, end);
  }
  // First channel of window element (ky, kx), counted from the image's.
  std::int64_t pixel(const Pool2dShape& s, std::int64_t ky, std::int64_t kx) const {
    return ((y0 + ky * s.dilation_h) * s.w + x0 + kx * s.dilation_w) * s.c;
  }

  std::int64_t y0, x0;
  std::int64_t ky_begin = 0, ky_end = 0, kx_begin = 0, kx_end = 0;
};

// No input pixel lies in two windows.
inline bool disjoint(const Pool2dShape& s) {
  return s.stride_h >= s.dilation_h * (s.kh - 1) + 1 && s.stride_w >= s.dilation_w * (s.kw - 1) + 1;
}

// Every input pixel lies in exactly one window, whole inside the image.
inline bool tiles(const Pool2dShape& s) {
  return s.dilation_h == 1 && s.dilation_w == 1 && s.stride_h == s.kh && s.stride_w == s.kw &&
         s.pad_h == 0 && s.pad_w == 0 && s.h % s.kh == 0 && s.w % s.kw == 0;
}

// Bytes of the image that are worth a thread.
constexpr std::int64_t kGrain = 64 * 1024;
template <typename T>
std::int64_t grain(const Pool2dShape& s) {
  return kGrain /
             std::max<std::int64_t>(1, s.h * s.w * s.c * static_cast<std::int64_t>(sizeof(T))) +
         1;
}

}  // namespace
}  // namespace dl::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// As many channels as fit a vector, then one at a time: a tag of one lane runs the same code.
template <typename D, typename T>
void forward_channels(D d, const Pool2dShape& s, const Window& window, const T* image,
                      std::int64_t c, T* y, std::uint16_t* winner) {
  using TI = hwy::MakeSigned<T>;
  const hn::Rebind<TI, D> di;
  auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto index = hn::Set(di, static_cast<TI>(window.ky_begin * s.kw + window.kx_begin));
  for (std::int64_t ky = window.ky_begin; ky < window.ky_end; ++ky) {
    for (std::int64_t kx = window.kx_begin; kx < window.kx_end; ++kx) {
      const auto x = hn::LoadU(d, image + window.pixel(s, ky, kx) + c);
      // Greater, or the first NaN: a best that is one already stays.
      const auto wins = hn::Or(hn::Gt(x, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(x)));
      best = hn::IfThenElse(wins, x, best);
      index = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, static_cast<TI>(ky * s.kw + kx)),
                             index);
    }
  }
  // Not Max: a NaN must stay one.
  if (s.relu) best = hn::IfThenZeroElse(hn::Lt(best, hn::Zero(d)), best);
  hn::StoreU(best, d, y + c);
  HWY_ALIGN TI wide[hn::MaxLanes(D())];
  hn::Store(index, di, wide);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    winner[c + static_cast<std::int64_t>(i)] = static_cast<std::uint16_t>(wide[i]);
  }
}

template <typename T>
void forward(const Pool2dShape& s, const T* x, T* y, std::uint16_t* winner) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  parallel_for(s.n, grain<T>(s), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin * oh; row < end * oh; ++row) {
      const T* image = x + row / oh * s.h * s.w * s.c;
      for (std::int64_t ox = 0; ox < ow; ++ox) {
        const Window window(s, row % oh, ox);
        T* to = y + (row * ow + ox) * s.c;
        std::uint16_t* to_winner = winner + (row * ow + ox) * s.c;
        std::int64_t c = 0;
        for (; c + lanes <= s.c; c += lanes) {
          forward_channels(d, s, window, image, c, to, to_winner);
        }
        for (; c < s.c; ++c) forward_channels(one, s, window, image, c, to, to_winner);
      }
    }
  });
}

template <bool Add, typename D, typename T>
void backward_channels(D d, const Pool2dShape& s, const Window& window, const T* dy, const T* y,
                       const std::uint16_t* winner, std::int64_t c, T* image) {
  using TI = hwy::MakeSigned<T>;
  const hn::Rebind<TI, D> di;
  HWY_ALIGN TI wide[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    wide[i] = winner[c + static_cast<std::int64_t>(i)];
  }
  const auto index = hn::Load(di, wide);
  auto gradient = hn::LoadU(d, dy + c);
  if (s.relu) {
    gradient = hn::IfThenZeroElse(hn::Le(hn::LoadU(d, y + c), hn::Zero(d)), gradient);
  }
  for (std::int64_t ky = window.ky_begin; ky < window.ky_end; ++ky) {
    for (std::int64_t kx = window.kx_begin; kx < window.kx_end; ++kx) {
      T* to = image + window.pixel(s, ky, kx) + c;
      const auto won =
          hn::RebindMask(d, hn::Eq(index, hn::Set(di, static_cast<TI>(ky * s.kw + kx))));
      const auto share = hn::IfThenElseZero(won, gradient);
      hn::StoreU(Add ? hn::Add(hn::LoadU(d, to), share) : share, d, to);
    }
  }
}

template <bool Add, typename T>
void backward_images(const Pool2dShape& s, const T* dy, const T* y, const std::uint16_t* winner,
                     T* dx) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const bool clear = Add || !tiles(s);
  const std::int64_t image_size = s.h * s.w * s.c;
  parallel_for(s.n, grain<T>(s), [&](std::int64_t begin, std::int64_t end) {
    if (clear) std::fill(dx + begin * image_size, dx + end * image_size, T{0});
    for (std::int64_t row = begin * oh; row < end * oh; ++row) {
      T* image = dx + row / oh * image_size;
      for (std::int64_t ox = 0; ox < ow; ++ox) {
        const Window window(s, row % oh, ox);
        const std::int64_t from = (row * ow + ox) * s.c;
        const T* out = s.relu ? y + from : nullptr;
        std::int64_t c = 0;
        for (; c + lanes <= s.c; c += lanes) {
          backward_channels<Add>(d, s, window, dy + from, out, winner + from, c, image);
        }
        for (; c < s.c; ++c) {
          backward_channels<Add>(one, s, window, dy + from, out, winner + from, c, image);
        }
      }
    }
  });
}

template <typename T>
void backward(const Pool2dShape& s, const T* dy, const T* y, const std::uint16_t* winner, T* dx) {
  if (disjoint(s)) {
    backward_images<false>(s, dy, y, winner, dx);
  } else {
    backward_images<true>(s, dy, y, winner, dx);
  }
}

void forward_f32(const Pool2dShape& s, const float* x, float* y, std::uint16_t* winner) {
  forward(s, x, y, winner);
}
void forward_f64(const Pool2dShape& s, const double* x, double* y, std::uint16_t* winner) {
  forward(s, x, y, winner);
}
void backward_f32(const Pool2dShape& s, const float* dy, const float* y,
                  const std::uint16_t* winner, float* dx) {
  backward(s, dy, y, winner, dx);
}
void backward_f64(const Pool2dShape& s, const double* dy, const double* y,
                  const std::uint16_t* winner, double* dx) {
  backward(s, dy, y, winner, dx);
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);

void max_pool2d_forward(const Pool2dShape& s, const float* x, float* y, std::uint16_t* winner) {
  HWY_DYNAMIC_DISPATCH(forward_f32)(s, x, y, winner);
}
void max_pool2d_forward(const Pool2dShape& s, const double* x, double* y, std::uint16_t* winner) {
  HWY_DYNAMIC_DISPATCH(forward_f64)(s, x, y, winner);
}
void max_pool2d_backward(const Pool2dShape& s, const float* dy, const float* y,
                         const std::uint16_t* winner, float* dx) {
  HWY_DYNAMIC_DISPATCH(backward_f32)(s, dy, y, winner, dx);
}
void max_pool2d_backward(const Pool2dShape& s, const double* dy, const double* y,
                         const std::uint16_t* winner, double* dx) {
  HWY_DYNAMIC_DISPATCH(backward_f64)(s, dy, y, winner, dx);
}

}  // namespace dl::kernels
#endif
