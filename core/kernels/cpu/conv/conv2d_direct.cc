#include "core/kernels/cpu/conv/conv2d_direct.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/device/parallel.h"

namespace dl::kernels {
namespace {

constexpr std::int64_t kDirectChannels = DirectConv2d::kChannels;
using Sums = std::array<double, static_cast<std::size_t>(kDirectChannels)>;

// If all sums are NaN, further terms change nothing: stopping here keeps data full of NaN cheap.
bool all_nan(const Sums& sums, std::int64_t count) {
  return std::all_of(sums.begin(), sums.begin() + count, [](double v) { return std::isnan(v); });
}

// The sums of one tap and input channel for Count output channels from o on; others stay 0.
template <std::int64_t Count>
Sums weight_sums(const Conv2dShape& s, const float* x, const float* dy, std::int64_t c,
                 std::int64_t tap, std::int64_t o) {
  Sums sums{};
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  for (std::int64_t row = 0; row < s.n * oh; ++row) {
    const std::int64_t iy = row % oh * s.stride_h - s.pad_h + tap / s.kw * s.dilation_h;
    if (iy < 0 || iy >= s.h) continue;
    const float* line = x + (row / oh * s.h + iy) * s.w * s.c_in + c;
    const float* gradient = dy + row * ow * s.c_out + o;
    for (std::int64_t ox = 0; ox < ow; ++ox, gradient += s.c_out) {
      const std::int64_t ix = ox * s.stride_w - s.pad_w + tap % s.kw * s.dilation_w;
      if (ix < 0 || ix >= s.w) continue;
      const double value = line[ix * s.c_in];
      for (std::size_t j = 0; j < Count; ++j) sums[j] += value * gradient[j];
    }
    if (all_nan(sums, Count)) break;
  }
  return sums;
}

// For output channels [o, o + Count) and one input channel of their group.
template <std::int64_t Count>
void mend_weights(const Conv2dShape& s, const float* x, const float* dy, std::int64_t c,
                  std::int64_t o, float* dweight) {
  const std::int64_t window = s.kh * s.kw;
  const std::int64_t in = s.c_in / s.groups;
  float* const to = dweight + (o * in + c % in) * window;
  const std::int64_t step = in * window;  // to the next output channel
  for (std::int64_t tap = 0; tap < window; ++tap) {
    bool finite = true;
    for (std::int64_t j = 0; j < Count; ++j) finite &= std::isfinite(to[j * step + tap]);
    if (finite) continue;
    const Sums sums = weight_sums<Count>(s, x, dy, c, tap, o);
    for (std::int64_t j = 0; j < Count; ++j) {
      float& element = to[j * step + tap];
      if (!std::isfinite(element)) element = static_cast<float>(sums[static_cast<std::size_t>(j)]);
    }
  }
}

}  // namespace

void DirectConv2d::pack() {
  const std::int64_t window = s_.kh * s_.kw;
  const std::int64_t blocks = (s_.c_out + kChannels - 1) / kChannels;
  packed_.assign(static_cast<std::size_t>(blocks * window * s_.c_in * kChannels), 0.0);
  for (std::int64_t o = 0; o < s_.c_out; ++o) {
    double* const block = packed_.data() + o / kChannels * window * s_.c_in * kChannels;
    for (std::int64_t c = 0; c < s_.c_in; ++c) {
      const float* from = filters_.origin + o * filters_.by_output + c * filters_.by_input;
      for (std::int64_t tap = 0; tap < window; ++tap) {
        block[(tap * s_.c_in + c) * kChannels + o % kChannels] = from[tap * filters_.by_tap];
      }
    }
  }
}

void DirectConv2d::write_pixel(std::int64_t n, std::int64_t oy, std::int64_t ox, std::int64_t o) {
  std::call_once(packed_once_, [this] { pack(); });
  const std::int64_t window = s_.kh * s_.kw;
  const double* const weights = packed_.data() + o * window * s_.c_in;
  const std::int64_t count = std::min(kChannels, s_.c_out - o);
  Sums sums{};
  if (bias_ != nullptr) std::copy_n(bias_ + o, count, sums.begin());
  for (std::int64_t tap = 0; tap < window && !all_nan(sums, count); ++tap) {
    const std::int64_t iy = oy * s_.stride_h - s_.pad_h + tap / s_.kw * s_.dilation_h;
    const std::int64_t ix = ox * s_.stride_w - s_.pad_w + tap % s_.kw * s_.dilation_w;
    if (iy < 0 || iy >= s_.h || ix < 0 || ix >= s_.w) continue;
    const float* const from = x_ + ((n * s_.h + iy) * s_.w + ix) * s_.c_in;
    const double* weight = weights + tap * s_.c_in * kChannels;
    for (std::int64_t c = 0; c < s_.c_in; ++c, weight += kChannels) {
      const double value = from[c];
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += value * weight[j];
    }
  }
  float* const to = y_ + ((n * s_.out_h() + oy) * s_.out_w() + ox) * s_.c_out + o;
  std::transform(sums.begin(), sums.begin() + count, to,
                 [this](double v) { return relu_ && v < 0 ? 0.0F : static_cast<float>(v); });
}

void DirectConv2d::write_all() {
  const std::int64_t oh = s_.out_h();
  const std::int64_t ow = s_.out_w();
  parallel_for(s_.n * oh, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t ox = 0; ox < ow; ++ox) {
        for (std::int64_t o = 0; o < s_.c_out; o += kChannels) {
          write_pixel(row / oh, row % oh, ox, o);
        }
      }
    }
  });
}

void direct_conv2d_mend_weights(const Conv2dShape& s, const float* x, const float* dy,
                                float* dweight) {
  parallel_for(s.c_in, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t group = c / (s.c_in / s.groups);
      std::int64_t o = group * (s.c_out / s.groups);
      const std::int64_t last = o + s.c_out / s.groups;
      for (; o + kDirectChannels <= last; o += kDirectChannels) {
        mend_weights<kDirectChannels>(s, x, dy, c, o, dweight);
      }
      for (; o < last; ++o) mend_weights<1>(s, x, dy, c, o, dweight);
    }
  });
}

void direct_conv2d_mend_border(const Conv2dShape& s, const float* x, const float* weight,
                               const float* bias, float* y) {
  const std::int64_t in = s.c_in / s.groups;
  const std::int64_t out = s.c_out / s.groups;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const auto sum_of = [&](std::int64_t n, std::int64_t top, std::int64_t left, std::int64_t o) {
    double sum = bias == nullptr ? 0.0 : bias[o];
    for (std::int64_t tap = 0; tap < s.kh * s.kw && !std::isnan(sum); ++tap) {
      const std::int64_t iy = top + tap / s.kw * s.dilation_h;
      const std::int64_t ix = left + tap % s.kw * s.dilation_w;
      if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
      const float* const from = x + ((n * s.h + iy) * s.w + ix) * s.c_in + o / out * in;
      for (std::int64_t c = 0; c < in; ++c) {
        sum += static_cast<double>(from[c]) * weight[(o * in + c) * s.kh * s.kw + tap];
      }
    }
    return static_cast<float>(sum);
  };
  parallel_for(s.n * oh, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t top = row % oh * s.stride_h - s.pad_h;
      const bool inside = top >= 0 && top + (s.kh - 1) * s.dilation_h < s.h;
      for (std::int64_t ox = 0; ox < ow; ++ox) {
        const std::int64_t left = ox * s.stride_w - s.pad_w;
        if (inside && left >= 0 && left + (s.kw - 1) * s.dilation_w < s.w) continue;
        float* const pixel = y + (row * ow + ox) * s.c_out;
        for (std::int64_t o = 0; o < s.c_out; ++o) {
          if (!std::isfinite(pixel[o])) pixel[o] = sum_of(row / oh, top, left, o);
        }
      }
    }
  });
}

}  // namespace dl::kernels
