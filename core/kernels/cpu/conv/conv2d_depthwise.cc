// The weight gradient of depthwise convolution (one input and one output channel a group),
// channels-last, in float32 and bfloat16.
//
// A task is one row of the window for one vector of channels: the sums of its taps stay in
// registers over an image, and images are added up one after the other. oneDNN has a kernel for
// some windows only, and takes a general one for grouped convolution for the rest.
#include <algorithm>
#include <array>
#include <cstdint>

#include "core/device/parallel.h"
#include "core/kernels/cpu/conv/conv2d.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/conv/conv2d_depthwise.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "core/kernels/cpu/common/bfloat16-inl.h"

#ifndef DLRUN_CORE_KERNELS_CPU_CONV2D_DEPTHWISE_
#define DLRUN_CORE_KERNELS_CPU_CONV2D_DEPTHWISE_
namespace dl::kernels {
namespace {

constexpr std::int64_t kMostLanes = 16;  // a vector of channels
constexpr std::int64_t kMostColumns = 7;

// The output pixels [first, end) of a row or column whose tap lies inside the image.
struct Inside {
  Inside(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t pad, std::int64_t tap)
      : first(std::max<std::int64_t>(0, (pad - tap + stride - 1) / stride)),
        end(std::clamp<std::int64_t>((in - 1 + pad - tap + stride) / stride, 0, out)) {}
  std::int64_t first, end;
};

}  // namespace
}  // namespace dl::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kMostLanes>;
using V = hn::Vec<D>;

template <typename T>
HWY_INLINE V load(const T* from) {
  return load_floats(D(), from);
}

// The sums of row `ky` of the window for the channels of one vector, [Columns][vector].
template <int Columns, typename T>
void sum_row(const Conv2dShape& s, const T* x, const T* dy, std::int64_t ky, float* sums) {
  const D d;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const std::int64_t step = s.dilation_w * s.c_in;  // from one tap to the next
  const Inside rows(s.h, oh, s.stride_h, s.pad_h, ky * s.dilation_h);
  // All taps of these pixels are inside.
  const std::int64_t first = Inside(s.w, ow, s.stride_w, s.pad_w, 0).first;
  const std::int64_t end = Inside(s.w, ow, s.stride_w, s.pad_w, (Columns - 1) * s.dilation_w).end;
  V total[Columns];
  for (V& v : total) v = hn::Zero(d);
  for (std::int64_t n = 0; n < s.n; ++n) {
    V sum[Columns];
    for (V& v : sum) v = hn::Zero(d);
    for (std::int64_t oy = rows.first; oy < rows.end; ++oy) {
      const std::int64_t iy = oy * s.stride_h - s.pad_h + ky * s.dilation_h;
      const T* const gradients = dy + (n * oh + oy) * ow * s.c_in;
      const T* const pixels = x + (n * s.h + iy) * s.w * s.c_in;
      const auto border = [&](std::int64_t ox) {
        const V g = load(gradients + ox * s.c_in);
        const std::int64_t left = ox * s.stride_w - s.pad_w;
        for (int kx = 0; kx < Columns; ++kx) {
          const std::int64_t ix = left + kx * s.dilation_w;
          if (ix >= 0 && ix < s.w) sum[kx] = hn::MulAdd(g, load(pixels + ix * s.c_in), sum[kx]);
        }
      };
      for (std::int64_t ox = 0; ox < std::min(first, ow); ++ox) border(ox);
      for (std::int64_t ox = first; ox < end; ++ox) {
        const V g = load(gradients + ox * s.c_in);
        const T* const from = pixels + (ox * s.stride_w - s.pad_w) * s.c_in;
        for (int kx = 0; kx < Columns; ++kx) {
          sum[kx] = hn::MulAdd(g, load(from + kx * step), sum[kx]);
        }
      }
      for (std::int64_t ox = std::max(first, end); ox < ow; ++ox) border(ox);
    }
    for (int kx = 0; kx < Columns; ++kx) total[kx] = hn::Add(total[kx], sum[kx]);
  }
  for (int kx = 0; kx < Columns; ++kx) {
    hn::StoreU(total[kx], d, sums + kx * static_cast<std::int64_t>(hn::Lanes(d)));
  }
}

template <typename T>
using SumRow = void (*)(const Conv2dShape&, const T*, const T*, std::int64_t, float*);
template <typename T>
constexpr SumRow<T> kSumRow[kMostColumns] = {sum_row<1, T>, sum_row<2, T>, sum_row<3, T>,
                                             sum_row<4, T>, sum_row<5, T>, sum_row<6, T>,
                                             sum_row<7, T>};

template <typename T>
void sum_gradients(std::int64_t pixels, std::int64_t channels, const T* dy, float* sums) {
  constexpr std::int64_t kRun = 1024;  // pixels of a sum
  const D d;
  V total = hn::Zero(d);
  for (std::int64_t begin = 0; begin < pixels; begin += kRun) {
    V sum = hn::Zero(d);
    for (std::int64_t p = begin; p < std::min(pixels, begin + kRun); ++p) {
      sum = hn::Add(sum, load(dy + p * channels));
    }
    total = hn::Add(total, sum);
  }
  hn::StoreU(total, d, sums);
}

template <typename T>
void backward_weights(const Conv2dShape& s, const T* x, const T* dy, T* dweight, T* dbias) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t channels = s.c_in;
  const std::int64_t vectors = (channels + lanes - 1) / lanes;
  parallel_for(vectors * s.kh, 1, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, static_cast<std::size_t>(kMostColumns * kMostLanes)> sums;
    for (std::int64_t task = begin; task < end; ++task) {
      // The last vector begins earlier, to be full: several tasks write the same values then, so
      // only the first one writes them.
      const std::int64_t wanted = task / s.kh * lanes;
      const std::int64_t c = std::min(wanted, channels - lanes);
      const std::int64_t ky = task % s.kh;
      kSumRow<T>[s.kw - 1](s, x + c, dy + c, ky, sums.data());
      for (std::int64_t i = wanted - c; i < lanes; ++i) {
        T* const to = dweight + ((c + i) * s.kh + ky) * s.kw;
        for (std::int64_t kx = 0; kx < s.kw; ++kx) {
          to[kx] = static_cast<T>(sums[static_cast<std::size_t>(kx * lanes + i)]);
        }
      }
      if (dbias == nullptr || ky != 0) continue;
      sum_gradients(s.n * s.out_h() * s.out_w(), channels, dy + c, sums.data());
      for (std::int64_t i = wanted - c; i < lanes; ++i) {
        dbias[c + i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
      }
    }
  });
}

void backward_weights_f32(const Conv2dShape& s, const float* x, const float* dy, float* dweight,
                          float* dbias) {
  backward_weights(s, x, dy, dweight, dbias);
}
void backward_weights_bf16(const Conv2dShape& s, const BFloat16* x, const BFloat16* dy,
                           BFloat16* dweight, BFloat16* dbias) {
  backward_weights(s, x, dy, dweight, dbias);
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {

HWY_EXPORT(backward_weights_f32);
HWY_EXPORT(backward_weights_bf16);

bool conv2d_is_depthwise(const Conv2dShape& s) noexcept {
  return s.c_in == s.groups && s.c_out == s.groups && s.groups >= kMostLanes &&
         s.kw <= kMostColumns;
}

void depthwise_conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy,
                                       float* dweight, float* dbias) {
  HWY_DYNAMIC_DISPATCH(backward_weights_f32)(s, x, dy, dweight, dbias);
}

void depthwise_conv2d_backward_weights(const Conv2dShape& s, const BFloat16* x, const BFloat16* dy,
                                       BFloat16* dweight, BFloat16* dbias) {
  HWY_DYNAMIC_DISPATCH(backward_weights_bf16)(s, x, dy, dweight, dbias);
}

}  // namespace dl::kernels
#endif
