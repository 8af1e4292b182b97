#include "core/kernels/cpu/pool/max_pool2d.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "core/device/parallel.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/pool/max_pool2d.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#ifndef DLRUN_CORE_KERNELS_CPU_MAX_POOL2D_
#define DLRUN_CORE_KERNELS_CPU_MAX_POOL2D_
namespace dl::kernels {
namespace {

// The elements of one output pixel's window that lie inside the image.
class Window {
 public:
  struct Element {
    std::int64_t offset;  // of its first channel, from the image's
    std::int32_t number;  // ky * kw + kx
  };

  explicit Window(const Pool2dShape& shape) : s_(shape) {
    elements_.reserve(static_cast<std::size_t>(s_.kh * s_.kw));
  }
  void move_to(std::int64_t oy, std::int64_t ox) {
    elements_.clear();
    for (std::int64_t ky = 0; ky < s_.kh; ++ky) {
      const std::int64_t y = oy * s_.stride_h - s_.pad_h + ky * s_.dilation_h;
      if (y < 0 || y >= s_.h) continue;
      for (std::int64_t kx = 0; kx < s_.kw; ++kx) {
        const std::int64_t x = ox * s_.stride_w - s_.pad_w + kx * s_.dilation_w;
        if (x < 0 || x >= s_.w) continue;
        elements_.push_back({(y * s_.w + x) * s_.c, static_cast<std::int32_t>(ky * s_.kw + kx)});
      }
    }
  }
  // Empty if dilation steps over the whole image.
  std::span<const Element> elements() const noexcept { return elements_; }

 private:
  const Pool2dShape& s_;
  std::vector<Element> elements_;
};

// Marks a window without a winner: it is empty, or the ReLU makes it 0.
constexpr std::uint16_t kNoWinner = 65535;

// True if no input pixel is in two windows.
inline bool disjoint(const Pool2dShape& s) {
  return s.stride_h >= s.dilation_h * (s.kh - 1) + 1 && s.stride_w >= s.dilation_w * (s.kw - 1) + 1;
}

// True if every input pixel is in exactly one window, and all windows are inside the image.
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

// Stores and loads the winners of one vector of channels. D: the tag of the values; DI: the tag of
// as many indices.
template <typename D, typename DI, typename I>
void store_winner(D d, DI di, I index, std::uint16_t* to) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::Rebind<std::uint16_t, D> d16;
    hn::StoreU(hn::DemoteTo(d16, index), d16, to);
  } else {
    HWY_ALIGN hn::TFromD<DI> wide[hn::MaxLanes(D())];
    hn::Store(index, di, wide);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = static_cast<std::uint16_t>(wide[i]);
  }
}

template <typename D, typename DI>
auto load_winner(D d, DI di, const std::uint16_t* from) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::Rebind<std::uint16_t, D> d16;
    return hn::PromoteTo(di, hn::LoadU(d16, from));
  } else {
    HWY_ALIGN hn::TFromD<DI> wide[hn::MaxLanes(D())];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) wide[i] = from[i];
    return hn::Load(di, wide);
  }
}

// Full vectors of channels, then one channel at a time: a tag of one lane runs the same code.
template <typename D, typename T>
void forward_channels(D d, bool relu, std::span<const Window::Element> window, const T* image, T* y,
                      std::uint16_t* winner) {
  using TI = hwy::MakeSigned<T>;
  const hn::Rebind<TI, D> di;
  auto best = hn::LoadU(d, image + window[0].offset);
  auto index = hn::Set(di, static_cast<TI>(window[0].number));
  auto sum = best;
  for (const Window::Element& element : window.subspan(1)) {
    const auto x = hn::LoadU(d, image + element.offset);
    const auto wins = hn::Gt(x, best);
    best = hn::IfThenElse(wins, x, best);
    index = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, static_cast<TI>(element.number)),
                           index);
    sum = hn::Add(sum, x);
  }
  // A NaN is never greater, so if the sum shows that there is one, another pass finds the last NaN.
  if (!hn::AllFalse(d, hn::IsNaN(sum))) [[unlikely]] {
    for (const Window::Element& element : window) {
      const auto x = hn::LoadU(d, image + element.offset);
      const auto nan = hn::IsNaN(x);
      best = hn::IfThenElse(nan, x, best);
      index = hn::IfThenElse(hn::RebindMask(di, nan), hn::Set(di, static_cast<TI>(element.number)),
                             index);
    }
  }
  // Not Max: NaN must stay NaN.
  if (relu) {
    const auto off = hn::Le(best, hn::Zero(d));
    best = hn::IfThenZeroElse(off, best);
    index = hn::IfThenElse(hn::RebindMask(di, off), hn::Set(di, static_cast<TI>(kNoWinner)), index);
  }
  hn::StoreU(best, d, y);
  store_winner(d, di, index, winner);
}

template <typename T>
void forward(const Pool2dShape& s, const T* x, T* y, std::uint16_t* winner) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  parallel_for(s.n, grain<T>(s), [&](std::int64_t begin, std::int64_t end) {
    Window window(s);
    for (std::int64_t row = begin * oh; row < end * oh; ++row) {
      const T* image = x + row / oh * s.h * s.w * s.c;
      for (std::int64_t ox = 0; ox < ow; ++ox) {
        window.move_to(row % oh, ox);
        T* to = y + (row * ow + ox) * s.c;
        std::uint16_t* to_winner = winner + (row * ow + ox) * s.c;
        if (window.elements().empty()) {
          std::fill_n(to, s.c, -std::numeric_limits<T>::infinity());
          std::fill_n(to_winner, s.c, kNoWinner);
          continue;
        }
        std::int64_t c = 0;
        for (; c + lanes <= s.c; c += lanes) {
          forward_channels(d, s.relu, window.elements(), image + c, to + c, to_winner + c);
        }
        for (; c < s.c; ++c)
          forward_channels(one, s.relu, window.elements(), image + c, to + c, to_winner + c);
      }
    }
  });
}

template <bool Add, typename D, typename T>
void backward_channels(D d, std::span<const Window::Element> window, const T* dy,
                       const std::uint16_t* winner, T* image) {
  using TI = hwy::MakeSigned<T>;
  const hn::Rebind<TI, D> di;
  const auto index = load_winner(d, di, winner);
  const auto gradient = hn::LoadU(d, dy);
  for (const Window::Element& element : window) {
    T* to = image + element.offset;
    const auto won = hn::Eq(index, hn::Set(di, static_cast<TI>(element.number)));
    const auto share = hn::IfThenElseZero(hn::RebindMask(d, won), gradient);
    hn::StoreU(Add ? hn::Add(hn::LoadU(d, to), share) : share, d, to);
  }
}

template <bool Add, typename T>
void backward_images(const Pool2dShape& s, const T* dy, const std::uint16_t* winner, T* dx) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const bool clear = Add || !tiles(s);
  const std::int64_t image_size = s.h * s.w * s.c;
  parallel_for(s.n, grain<T>(s), [&](std::int64_t begin, std::int64_t end) {
    if (clear) std::fill(dx + begin * image_size, dx + end * image_size, T{0});
    Window window(s);
    for (std::int64_t row = begin * oh; row < end * oh; ++row) {
      T* image = dx + row / oh * image_size;
      for (std::int64_t ox = 0; ox < ow; ++ox) {
        window.move_to(row % oh, ox);
        const std::int64_t from = (row * ow + ox) * s.c;
        std::int64_t c = 0;
        for (; c + lanes <= s.c; c += lanes) {
          backward_channels<Add>(d, window.elements(), dy + from + c, winner + from + c, image + c);
        }
        for (; c < s.c; ++c) {
          backward_channels<Add>(one, window.elements(), dy + from + c, winner + from + c,
                                 image + c);
        }
      }
    }
  });
}

template <typename T>
void backward(const Pool2dShape& s, const T* dy, const std::uint16_t* winner, T* dx) {
  if (disjoint(s)) {
    backward_images<false>(s, dy, winner, dx);
  } else {
    backward_images<true>(s, dy, winner, dx);
  }
}

void forward_f32(const Pool2dShape& s, const float* x, float* y, std::uint16_t* winner) {
  forward(s, x, y, winner);
}
void forward_f64(const Pool2dShape& s, const double* x, double* y, std::uint16_t* winner) {
  forward(s, x, y, winner);
}
void backward_f32(const Pool2dShape& s, const float* dy, const std::uint16_t* winner, float* dx) {
  backward(s, dy, winner, dx);
}
void backward_f64(const Pool2dShape& s, const double* dy, const std::uint16_t* winner, double* dx) {
  backward(s, dy, winner, dx);
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
void max_pool2d_backward(const Pool2dShape& s, const float* dy, const std::uint16_t* winner,
                         float* dx) {
  HWY_DYNAMIC_DISPATCH(backward_f32)(s, dy, winner, dx);
}
void max_pool2d_backward(const Pool2dShape& s, const double* dy, const std::uint16_t* winner,
                         double* dx) {
  HWY_DYNAMIC_DISPATCH(backward_f64)(s, dy, winner, dx);
}

}  // namespace dl::kernels
#endif
