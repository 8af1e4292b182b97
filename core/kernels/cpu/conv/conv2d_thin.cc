// Convolution of images with few channels (a network's first layer), channels-last.
//
// Each image is copied once into a frame with its padding. Every tap of every output pixel is then
// at a fixed offset from the pixel's corner, without border cases. The forward pass keeps kPixels
// pixels x 2 vectors of output channels in registers; the weight gradient keeps kTaps taps x 2
// vectors in registers over a whole image. The images are divided among threads. The frame's zeros
// turn an infinity into NaN; such results are recomputed by the definition (conv2d_direct.h).
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/kernels/cpu/common/parts.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "core/kernels/cpu/conv/conv2d_direct.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/conv/conv2d_thin.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#ifndef DLRUN_CORE_KERNELS_CPU_CONV2D_THIN_
#define DLRUN_CORE_KERNELS_CPU_CONV2D_THIN_
namespace dl::kernels {
namespace {

constexpr std::int64_t kPixels = 6;
constexpr std::int64_t kTaps = 6;

// One image inside its padding, and the offsets of its taps.
struct Frame {
  explicit Frame(const Conv2dShape& s)
      : shape(s),
        row((s.w + 2 * s.pad_w) * s.c_in),
        pixels(static_cast<std::size_t>((s.h + 2 * s.pad_h) * row), 0.0F) {
    for (std::int64_t i = 0; i < s.c_in; ++i) {
      for (std::int64_t ky = 0; ky < s.kh; ++ky) {
        for (std::int64_t kx = 0; kx < s.kw; ++kx) {
          offsets.push_back(ky * s.dilation_h * row + kx * s.dilation_w * s.c_in + i);
        }
      }
    }
  }
  void load(const float* image) {
    const std::int64_t width = shape.w * shape.c_in;
    for (std::int64_t y = 0; y < shape.h; ++y) {
      std::copy_n(image + y * width, width,
                  pixels.data() + (y + shape.pad_h) * row + shape.pad_w * shape.c_in);
    }
  }
  const float* corner(std::int64_t oy) const { return pixels.data() + oy * shape.stride_h * row; }

  Conv2dShape shape;
  std::int64_t row;  // floats of one row
  std::vector<float> pixels;
  std::vector<std::int64_t> offsets;  // of tap (i, ky, kx), in the weight's order
};

}  // namespace
}  // namespace dl::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The number of valid lanes in the two vectors at channel `o`.
struct Lanes2 {
  Lanes2(std::int64_t o, std::int64_t channels) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
    low = static_cast<std::size_t>(std::clamp<std::int64_t>(channels - o, 0, lanes));
    high = static_cast<std::size_t>(std::clamp<std::int64_t>(channels - o - lanes, 0, lanes));
    full = low + high == 2 * static_cast<std::size_t>(lanes);
  }
  std::size_t low, high;
  bool full;
};

// `packed` is [tap][2 vectors] of one block of output channels, `bias` its 2 vectors.
template <int Pixels>
void forward_pixels(const Frame& frame, const float* corner, const float* packed, const float* bias,
                    bool relu, const Lanes2& exist, float* y) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t step = frame.shape.stride_w * frame.shape.c_in;
  V low[Pixels];
  V high[Pixels];
  for (int p = 0; p < Pixels; ++p) {
    low[p] = hn::Load(d, bias);
    high[p] = hn::Load(d, bias + lanes);
  }
  for (const std::int64_t offset : frame.offsets) {
    const V w0 = hn::LoadU(d, packed);
    const V w1 = hn::LoadU(d, packed + lanes);
    packed += 2 * lanes;
    for (int p = 0; p < Pixels; ++p) {
      const V x = hn::Set(d, corner[offset + p * step]);
      low[p] = hn::MulAdd(x, w0, low[p]);
      high[p] = hn::MulAdd(x, w1, high[p]);
    }
  }
  for (int p = 0; p < Pixels; ++p) {
    if (relu) {
      // Not Max: NaN must stay NaN.
      low[p] = hn::IfThenZeroElse(hn::Lt(low[p], hn::Zero(d)), low[p]);
      high[p] = hn::IfThenZeroElse(hn::Lt(high[p], hn::Zero(d)), high[p]);
    }
    float* to = y + p * frame.shape.c_out;
    if (exist.full) {
      hn::StoreU(low[p], d, to);
      hn::StoreU(high[p], d, to + lanes);
    } else {
      hn::BlendedStore(low[p], hn::FirstN(d, exist.low), d, to);
      hn::BlendedStore(high[p], hn::FirstN(d, exist.high), d, to + lanes);
    }
  }
}

void forward_row(const Frame& frame, std::int64_t oy, const float* packed, const float* bias,
                 bool relu, const Lanes2& exist, float* y) {
  const Conv2dShape& s = frame.shape;
  const float* corner = frame.corner(oy);
  const std::int64_t step = s.stride_w * s.c_in;
  const std::int64_t ow = s.out_w();
  std::int64_t ox = 0;
  for (; ox + kPixels <= ow; ox += kPixels) {
    forward_pixels<kPixels>(frame, corner + ox * step, packed, bias, relu, exist, y + ox * s.c_out);
  }
  for (; ox + 2 <= ow; ox += 2) {
    forward_pixels<2>(frame, corner + ox * step, packed, bias, relu, exist, y + ox * s.c_out);
  }
  for (; ox < ow; ++ox) {
    forward_pixels<1>(frame, corner + ox * step, packed, bias, relu, exist, y + ox * s.c_out);
  }
}

// Weights as [block of channels][tap][2 vectors], zero beyond the last channel.
std::vector<float> pack(const Conv2dShape& s, const float* weight, std::int64_t taps) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  const std::int64_t blocks = (s.c_out + width - 1) / width;
  std::vector<float> packed(static_cast<std::size_t>(blocks * taps * width), 0.0F);
  for (std::int64_t o = 0; o < s.c_out; ++o) {
    float* to = packed.data() + o / width * taps * width + o % width;
    for (std::int64_t t = 0; t < taps; ++t) to[t * width] = weight[o * taps + t];
  }
  return packed;
}

void forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias,
             bool relu, float* y) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  const std::int64_t taps = s.taps();
  const std::vector<float> packed = pack(s, weight, taps);
  const std::int64_t oh = s.out_h();
  const std::int64_t row = s.out_w() * s.c_out;
  parallel_for(s.n, 1, [&](std::int64_t begin, std::int64_t end) {
    Frame frame(s);
    HWY_ALIGN float start[2 * HWY_MAX_BYTES / sizeof(float)];
    for (std::int64_t n = begin; n < end; ++n) {
      frame.load(x + n * s.h * s.w * s.c_in);
      for (std::int64_t oy = 0; oy < oh; ++oy) {
        for (std::int64_t o = 0; o < s.c_out; o += width) {
          const Lanes2 exist(o, s.c_out);
          for (std::int64_t i = 0; i < width; ++i) {
            start[i] = bias != nullptr && o + i < s.c_out ? bias[o + i] : 0.0F;
          }
          forward_row(frame, oy, packed.data() + o * taps, start, relu, exist,
                      y + (n * oh + oy) * row + o);
        }
      }
    }
  });
}

// sums[tap][2 vectors] += the image's contribution, for Taps taps.
template <int Taps>
void weight_taps(const Frame& frame, const std::int64_t* offsets, const float* dy,
                 const Lanes2& exist, float* sums) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Conv2dShape& s = frame.shape;
  const std::int64_t step = s.stride_w * s.c_in;
  const std::int64_t ow = s.out_w();
  const auto first_low = hn::FirstN(d, exist.low);
  const auto first_high = hn::FirstN(d, exist.high);
  V low[Taps];
  V high[Taps];
  for (int t = 0; t < Taps; ++t) low[t] = high[t] = hn::Zero(d);
  for (std::int64_t oy = 0; oy < s.out_h(); ++oy) {
    const float* corner = frame.corner(oy);
    for (std::int64_t ox = 0; ox < ow; ++ox, dy += s.c_out, corner += step) {
      const V g0 = exist.full ? hn::LoadU(d, dy) : hn::MaskedLoad(first_low, d, dy);
      const V g1 =
          exist.full ? hn::LoadU(d, dy + lanes) : hn::MaskedLoad(first_high, d, dy + lanes);
      for (int t = 0; t < Taps; ++t) {
        const V x = hn::Set(d, corner[offsets[t]]);
        low[t] = hn::MulAdd(x, g0, low[t]);
        high[t] = hn::MulAdd(x, g1, high[t]);
      }
    }
  }
  for (int t = 0; t < Taps; ++t) {
    float* to = sums + std::int64_t{t} * 2 * lanes;
    hn::StoreU(hn::Add(low[t], hn::LoadU(d, to)), d, to);
    hn::StoreU(hn::Add(high[t], hn::LoadU(d, to + lanes)), d, to + lanes);
  }
}

void weight_image(const Frame& frame, const float* dy, const Lanes2& exist, float* sums) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  const auto taps = static_cast<std::int64_t>(frame.offsets.size());
  const std::int64_t passes = (taps + kTaps - 1) / kTaps;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t first = taps * pass / passes;
    const std::int64_t* offsets = frame.offsets.data() + first;
    float* to = sums + first * width;
    switch (taps * (pass + 1) / passes - first) {
      case 6:
        weight_taps<6>(frame, offsets, dy, exist, to);
        break;
      case 5:
        weight_taps<5>(frame, offsets, dy, exist, to);
        break;
      case 4:
        weight_taps<4>(frame, offsets, dy, exist, to);
        break;
      case 3:
        weight_taps<3>(frame, offsets, dy, exist, to);
        break;
      case 2:
        weight_taps<2>(frame, offsets, dy, exist, to);
        break;
      default:
        weight_taps<1>(frame, offsets, dy, exist, to);
        break;
    }
  }
}

void bias_image(const Conv2dShape& s, const float* dy, const Lanes2& exist, float* sums) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto first_low = hn::FirstN(d, exist.low);
  const auto first_high = hn::FirstN(d, exist.high);
  V low = hn::Zero(d);
  V high = hn::Zero(d);
  const std::int64_t pixels = s.out_h() * s.out_w();
  for (std::int64_t p = 0; p < pixels; ++p, dy += s.c_out) {
    low = hn::Add(low, hn::MaskedLoad(first_low, d, dy));
    high = hn::Add(high, hn::MaskedLoad(first_high, d, dy + lanes));
  }
  hn::StoreU(hn::Add(low, hn::LoadU(d, sums)), d, sums);
  hn::StoreU(hn::Add(high, hn::LoadU(d, sums + lanes)), d, sums + lanes);
}

void backward_weights(const Conv2dShape& s, const float* x, const float* dy, float* dweight,
                      float* dbias) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  const std::int64_t taps = s.taps();
  const std::int64_t blocks = (s.c_out + width - 1) / width;
  const std::int64_t rows = taps + 1;  // the last one is the bias
  const std::int64_t part_size = blocks * rows * width;
  const int parts = parts_of(s.n, 1);
  std::vector<float> sums(static_cast<std::size_t>(parts * part_size), 0.0F);
  const std::int64_t image = s.out_h() * s.out_w() * s.c_out;
  parallel_parts(s.n, 1, [&](int part, std::int64_t begin, std::int64_t end) {
    Frame frame(s);
    for (std::int64_t n = begin; n < end; ++n) {
      frame.load(x + n * s.h * s.w * s.c_in);
      for (std::int64_t b = 0; b < blocks; ++b) {
        const Lanes2 exist(b * width, s.c_out);
        const float* from = dy + n * image + b * width;
        float* to = sums.data() + part * part_size + b * rows * width;
        weight_image(frame, from, exist, to);
        if (dbias != nullptr) bias_image(s, from, exist, to + taps * width);
      }
    }
  });
  for (int part = 1; part < parts; ++part) {
    for (std::int64_t i = 0; i < part_size; ++i) sums[i] += sums[part * part_size + i];
  }
  for (std::int64_t o = 0; o < s.c_out; ++o) {
    const float* from = sums.data() + o / width * rows * width + o % width;
    for (std::int64_t t = 0; t < taps; ++t) dweight[o * taps + t] = from[t * width];
    if (dbias != nullptr) dbias[o] = from[taps * width];
  }
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {

HWY_EXPORT(forward);
HWY_EXPORT(backward_weights);

bool conv2d_is_thin(const Conv2dShape& s) noexcept {
  // Other kernels handle padding beyond the window's reach: the frame would become arbitrarily
  // large.
  const bool near = s.pad_h <= s.dilation_h * s.kh && s.pad_w <= s.dilation_w * s.kw;
  return s.groups == 1 && s.c_in <= 4 && s.taps() <= 256 && near;
}

void thin_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight,
                         const float* bias, bool relu, float* y) {
  if (!all_finite(weight, s.c_out * s.taps())) {
    const Filters filters{
        .origin = weight, .by_output = s.taps(), .by_input = s.kh * s.kw, .by_tap = 1};
    return DirectConv2d(s, x, filters, bias, relu, y).write_all();
  }
  HWY_DYNAMIC_DISPATCH(forward)(s, x, weight, bias, relu, y);
}

void thin_conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy,
                                  float* dweight, float* dbias) {
  HWY_DYNAMIC_DISPATCH(backward_weights)(s, x, dy, dweight, dbias);
  if (!all_finite(dweight, s.c_out * s.taps())) direct_conv2d_mend_weights(s, x, dy, dweight);
}

}  // namespace dl::kernels
#endif
