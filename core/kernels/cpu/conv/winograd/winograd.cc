// 3x3 convolution with stride 1 by Winograd's minimal filtering, channels-last: F(2x2, 3x3) and
// F(4x4, 3x3).
//
// Each 2x2 tile of the output needs 16 products per pair of channels instead of 36, and each 4x4
// tile 36 instead of 144 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
// 2016, section 4):
//
//     Y = A^T [ (G g G^T) . (B^T d B) ] A     d: the tile's part of the input, g: the 3x3 filter
//
// so that over all channels the products become matrix products, one for each element of the
// transformed tile:   M[e] = V[e] U[e],   [tiles, c_in] x [c_in, c_out].
// The gradient of the weights follows from this formula: dU[e] = V[e]^T dM[e] with dM = A dY A^T,
// and dg = G^T dU G. The gradient of the input is the convolution of dY with the reversed filters.
//
// Tiles of 2 interpolate at 0, 1, -1 and infinity; their matrices hold small sums with the factors
// 1 and 1/2 only, so f32 results stay within a few units in the last place of the direct sum's.
// Tiles of 4 interpolate at 0, +-1/sqrt(2), +-sqrt(2) and infinity, which round least of the points
// that were tried: the mean error is 3 to 5 times that of the direct sum (0, +-1, +-2: 6 to 10).
//
// But the sums mix the window's numbers with the rest of the tile, and may subtract infinities or
// large numbers from each other. Results that are not finite are therefore recomputed by the
// definition (conv2d_direct.h). Work is cut into strips of tiles (plan.h).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "core/kernels/cpu/common/parts.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "core/kernels/cpu/conv/conv2d_direct.h"
#include "core/kernels/cpu/conv/winograd/plan.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/conv/winograd/winograd.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "core/kernels/cpu/conv/winograd/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

// The taps of one input channel for a vector of output channels. A channel beyond the last has the
// taps 0.
HWY_INLINE void load_filters(const Conv2dShape& s, const Filters& filters, std::int64_t o,
                             std::int64_t c, V (&taps)[9]) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float buffer[9 * hn::MaxLanes(D())] = {};
  for (std::int64_t i = 0; i < std::min(lanes, s.c_out - o); ++i) {
    const float* g = filters.origin + (o + i) * filters.by_output + c * filters.by_input;
    for (std::int64_t tap = 0; tap < 9; ++tap) buffer[tap * lanes + i] = g[tap * filters.by_tap];
  }
  for (std::int64_t tap = 0; tap < 9; ++tap) taps[tap] = hn::Load(d, buffer + tap * lanes);
}

// U = G g G^T as [element][block of 2 vectors of o][c][2 vectors].
template <int kTile>
Floats transform_weight(const Plan& plan, const Filters& filters) {
  constexpr int kSize = Scheme<kTile>::kSize;
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t element = apart(plan.s.c_in * plan.o);
  Floats u = floats(plan.elements * element);
  constexpr std::int64_t kGrain = 4096;  // filters worth a thread
  parallel_for(plan.o / lanes, kGrain / (lanes * plan.s.c_in) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t vector = begin; vector < end; ++vector) {
                   float* const block =
                       u.get() + vector / 2 * plan.s.c_in * 2 * lanes + vector % 2 * lanes;
                   for (std::int64_t c = 0; c < plan.s.c_in; ++c) {
                     V taps[9];
                     load_filters(plan.s, filters, vector * lanes, c, taps);
                     V half[kSize * 3];  // G g
                     for (int q = 0; q < 3; ++q) Scheme<kTile>::weight(taps + q, half + q, 3);
                     for (int row = 0; row < kSize; ++row) {
                       V line[kSize];
                       Scheme<kTile>::weight(half + row * 3, line, 1);
                       for (int q = 0; q < kSize; ++q) {
                         hn::Store(line[q], d, block + (row * kSize + q) * element + c * 2 * lanes);
                       }
                     }
                   }
                 }
               });
  return u;
}

// M = V U for a strip.
void multiply(const Plan& plan, const Strip& strip, const float* u, Workspace& work) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  for (std::int64_t e = 0; e < plan.elements; ++e) {
    for (std::int64_t o = 0; o < plan.o; o += width) {
      product_rows(strip.tiles, plan.s.c_in, work.v.get() + e * apart(strip.tiles * plan.c), plan.c,
                   1, u + e * apart(plan.s.c_in * plan.o) + o * plan.s.c_in, width, false,
                   work.m.get() + e * apart(strip.tiles * plan.o) + o, plan.o);
    }
  }
}

// Y = A^T M A of a tile and a vector of channels, with the bias.
template <int kTile>
struct TileOutput {
  static constexpr int kSize = Scheme<kTile>::kSize;
  HWY_INLINE TileOutput(const float* m, std::int64_t step, V bias) {
    const D d;
    V half[kTile * kSize];  // A^T M
    for (int q = 0; q < kSize; ++q) {
      V column[kSize];
      for (int row = 0; row < kSize; ++row) column[row] = hn::Load(d, m + (row * kSize + q) * step);
      Scheme<kTile>::output(column, column, 1);
      for (int row = 0; row < kTile; ++row) half[row * kSize + q] = column[row];
    }
    for (int row = 0; row < kTile; ++row) {
      Scheme<kTile>::output(half + row * kSize, at[row], 1);
      for (V& v : at[row]) v = hn::Add(v, bias);
    }
  }
  // NaN if one of the elements, or their sum, is not finite; else 0.
  HWY_INLINE V fault() const {
    V sum = hn::Zero(D());
    for (const auto& row : at) {
      for (const V& v : row) sum = hn::Add(sum, v);
    }
    return hn::Mul(sum, hn::Zero(D()));
  }
  V at[kTile][kTile];
};

HWY_INLINE V bias_at(const float* bias, std::int64_t o, std::int64_t channels) {
  const D d;
  return bias == nullptr ? hn::Zero(d)
                         : hn::MaskedLoad(hn::FirstN(d, existing(o, channels)), d, bias + o);
}

// Recomputes the elements of a tile that are not finite.
template <int kTile>
HWY_NOINLINE void mend_tile(const Plan& plan, const Strip::Corner& corner, const float* m,
                            std::int64_t step, const float* bias, DirectConv2d& direct) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Conv2dShape& s = plan.s;
  for (std::int64_t o = 0; o < s.c_out; o += DirectConv2d::kChannels) {
    bool faulty[kTile][kTile] = {};
    const std::int64_t end = std::min(s.c_out, o + DirectConv2d::kChannels);
    for (std::int64_t at = o; at < end; at += lanes) {
      const TileOutput<kTile> out(m + at, step, bias_at(bias, at, s.c_out));
      const auto first = hn::FirstN(d, existing(at, s.c_out));
      for (int r = 0; r < kTile; ++r) {
        for (int q = 0; q < kTile; ++q) {
          faulty[r][q] |= !hn::AllFalse(d, hn::AndNot(hn::IsFinite(out.at[r][q]), first));
        }
      }
    }
    for (int r = 0; r < kTile && corner.y + r < s.out_h(); ++r) {
      for (int q = 0; q < kTile && corner.x + q < s.out_w(); ++q) {
        if (faulty[r][q]) direct.write_pixel(corner.image, corner.y + r, corner.x + q, o);
      }
    }
  }
}

// The strip's part of y: A^T M A, the bias and the ReLU.
// Tells whether all of it is finite; float32 that is not is recomputed.
template <int kTile, typename T>
bool transform_output(const Plan& plan, const Strip& strip, Workspace& work, const float* bias,
                      bool relu, T* y, DirectConv2d* direct) {
  constexpr bool kIsStaged = !std::is_same_v<T, float>;
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const Conv2dShape& s = plan.s;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const std::int64_t step = apart(strip.tiles * plan.o);
  bool is_finite = true;
  for (std::int64_t tile = 0; tile < strip.tiles; ++tile) {
    const Strip::Corner corner = strip.corner(plan, tile);
    const auto [image, oy, ox] = corner;
    T* const corner_of_y = y + ((image * oh + oy) * ow + ox) * s.c_out;
    float* to = work.staged.get();
    std::int64_t row = kTile * s.c_out;
    if constexpr (!kIsStaged) {
      to = corner_of_y;
      row = ow * s.c_out;
    }
    const float* const from = work.m.get() + tile * plan.o;
    V fault = hn::Zero(d);
    for (std::int64_t o = 0; o < s.c_out; o += static_cast<std::int64_t>(lanes)) {
      TileOutput<kTile> out(from + o, step, bias_at(bias, o, s.c_out));
      fault = hn::Add(fault, out.fault());
      const std::size_t exist = existing(o, s.c_out);
      const auto first = hn::FirstN(d, exist);
      for (int r = 0; r < kTile && oy + r < oh; ++r) {
        for (int q = 0; q < kTile && ox + q < ow; ++q) {
          V& v = out.at[r][q];
          // Not Max: NaN must stay NaN.
          if (relu) v = hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
          float* pixel = to + r * row + q * s.c_out + o;
          if (exist == lanes) {
            hn::StoreU(v, d, pixel);
          } else {
            hn::BlendedStore(v, first, d, pixel);
          }
        }
      }
    }
    if (!hn::AllFalse(d, hn::IsNaN(fault))) [[unlikely]] {
      is_finite = false;
      if constexpr (!kIsStaged) mend_tile<kTile>(plan, corner, from, step, bias, *direct);
    }
    if constexpr (kIsStaged) {
      for (std::int64_t r = 0; r < std::min<std::int64_t>(kTile, oh - oy); ++r) {
        cpu::narrow(to + r * row, corner_of_y + r * ow * s.c_out,
                    std::min<std::int64_t>(kTile, ow - ox) * s.c_out);
      }
    }
  }
  return is_finite;
}

// Returns false if a result is not finite in bfloat16, for which nothing is recomputed here.
template <int kTile, typename T>
bool convolve_tiles(const Conv2dShape& s, const T* x, const Filters& filters, const float* bias,
                    bool relu, T* y) {
  const Plan plan(s, kTile, static_cast<std::int64_t>(hn::Lanes(D())));
  const Floats u = transform_weight<kTile>(plan, filters);
  std::optional<DirectConv2d> direct;
  if constexpr (std::is_same_v<T, float>) direct.emplace(s, x, filters, bias, relu, y);
  std::atomic<bool> is_finite{true};
  parallel_for(plan.strips(), 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace work(plan);
    for (std::int64_t number = begin; number < end; ++number) {
      const Strip strip(plan, number);
      transform_input<kTile>(plan, strip, x, work);
      multiply(plan, strip, u.get(), work);
      if (!transform_output<kTile>(plan, strip, work, bias, relu, y, direct ? &*direct : nullptr)) {
        is_finite.store(false, std::memory_order_relaxed);
      }
    }
  });
  return std::is_same_v<T, float> || is_finite.load(std::memory_order_relaxed);
}

template <typename T>
bool convolve(int tile, const Conv2dShape& s, const T* x, const Filters& filters, const float* bias,
              bool relu, T* y) {
  return tile == 2 ? convolve_tiles<2>(s, x, filters, bias, relu, y)
                   : convolve_tiles<4>(s, x, filters, bias, relu, y);
}

template <typename T>
bool winograd_forward_of(int tile, const Conv2dShape& s, const T* x, const float* weight,
                         const float* bias, bool relu, T* y) {
  return convolve(tile, s, x,
                  {.origin = weight, .by_output = s.c_in * 9, .by_input = 9, .by_tap = 1}, bias,
                  relu, y);
}

template <typename T>
bool winograd_backward_data_of(int tile, const Conv2dShape& s, const T* dy, const float* weight,
                               T* dx) {
  Conv2dShape turned = s;
  turned.c_in = s.c_out;
  turned.c_out = s.c_in;
  turned.h = s.out_h();
  turned.w = s.out_w();
  turned.pad_h = 2 - s.pad_h;
  turned.pad_w = 2 - s.pad_w;
  return convolve(tile, turned, dy,
                  {.origin = weight + 8, .by_output = 9, .by_input = s.c_in * 9, .by_tap = -1},
                  nullptr, false, dx);
}

void winograd_forward_f32(int tile, const Conv2dShape& s, const float* x, const float* weight,
                          const float* bias, bool relu, float* y) {
  winograd_forward_of(tile, s, x, weight, bias, relu, y);
}
bool winograd_forward_bf16(int tile, const Conv2dShape& s, const BFloat16* x, const float* weight,
                           const float* bias, BFloat16* y) {
  return winograd_forward_of(tile, s, x, weight, bias, false, y);
}
void winograd_backward_data_f32(int tile, const Conv2dShape& s, const float* dy,
                                const float* weight, float* dx) {
  winograd_backward_data_of(tile, s, dy, weight, dx);
}
bool winograd_backward_data_bf16(int tile, const Conv2dShape& s, const BFloat16* dy,
                                 const float* weight, BFloat16* dx) {
  return winograd_backward_data_of(tile, s, dy, weight, dx);
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {

HWY_EXPORT(winograd_forward_f32);
HWY_EXPORT(winograd_forward_bf16);
HWY_EXPORT(winograd_backward_data_f32);
HWY_EXPORT(winograd_backward_data_bf16);

bool conv2d_is_winograd(const Conv2dShape& s) noexcept {
  const bool can = s.kh == 3 && s.kw == 3 && s.stride_h == 1 && s.stride_w == 1 &&
                   s.dilation_h == 1 && s.dilation_w == 1 && s.groups == 1 && s.pad_h <= 2 &&
                   s.pad_w <= 2;
  // Below this, transforming weights and narrow vectors costs more than the products saved.
  constexpr std::int64_t kChannels = 16;
  constexpr std::int64_t kTiles = 128;
  return can && s.c_in >= kChannels && s.c_out >= kChannels &&
         s.n * ((s.out_h() + 1) / 2) * ((s.out_w() + 1) / 2) >= kTiles;
}

int winograd_tile(const Conv2dShape& s) noexcept {
  // Transforming and reading the weights costs as much as the products of so many tiles.
  constexpr std::int64_t kTilesOfWeights = 80;
  const auto cost = [&](std::int64_t tile) {
    const std::int64_t rows = (s.out_h() + tile - 1) / tile;
    const std::int64_t columns = (s.out_w() + tile - 1) / tile;
    return (tile + 2) * (tile + 2) * (s.n * rows * columns + kTilesOfWeights);
  };
  return cost(4) < cost(2) ? 4 : 2;
}

void winograd_conv2d_forward(int tile, const Conv2dShape& s, const float* x, const float* weight,
                             const float* bias, bool relu, float* y) {
  HWY_DYNAMIC_DISPATCH(winograd_forward_f32)(tile, s, x, weight, bias, relu, y);
}

bool winograd_conv2d_forward(int tile, const Conv2dShape& s, const BFloat16* x,
                             const BFloat16* weight, const BFloat16* bias, BFloat16* y) {
  const winograd::Floats wide_weight = winograd::widened(weight, s.c_out * s.taps());
  const winograd::Floats wide_bias = winograd::widened(bias, s.c_out);
  return HWY_DYNAMIC_DISPATCH(winograd_forward_bf16)(tile, s, x, wide_weight.get(), wide_bias.get(),
                                                     y);
}

void winograd_conv2d_backward_data(int tile, const Conv2dShape& s, const float* dy,
                                   const float* weight, float* dx) {
  HWY_DYNAMIC_DISPATCH(winograd_backward_data_f32)(tile, s, dy, weight, dx);
}

bool winograd_conv2d_backward_data(int tile, const Conv2dShape& s, const BFloat16* dy,
                                   const BFloat16* weight, BFloat16* dx) {
  const winograd::Floats wide = winograd::widened(weight, s.c_out * s.taps());
  return HWY_DYNAMIC_DISPATCH(winograd_backward_data_bf16)(tile, s, dy, wide.get(), dx);
}

}  // namespace dl::kernels
#endif
