// The weight gradient of Winograd's convolution (winograd.cc).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "core/kernels/cpu/common/parts.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "core/kernels/cpu/conv/conv2d_direct.h"
#include "core/kernels/cpu/conv/winograd/plan.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/conv/winograd/weights.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "core/kernels/cpu/conv/winograd/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

// dM = A dY A^T of a strip, and the sums of dY for the bias.
template <int kTile, typename T>
void transform_gradient(const Plan& plan, const Strip& strip, const T* dy, Workspace& work,
                        float* bias_sums) {
  constexpr bool kIsStaged = !std::is_same_v<T, float>;
  constexpr int kSize = Scheme<kTile>::kSize;
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Conv2dShape& s = plan.s;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const std::int64_t step = apart(strip.tiles * plan.o);
  for (std::int64_t tile = 0; tile < strip.tiles; ++tile) {
    const auto [image, oy, ox] = strip.corner(plan, tile);
    const T* const corner = dy + ((image * oh + oy) * ow + ox) * s.c_out;
    const float* from = work.staged.get();
    std::int64_t line = kTile * s.c_out;
    if constexpr (kIsStaged) {
      for (std::int64_t r = 0; r < std::min<std::int64_t>(kTile, oh - oy); ++r) {
        winograd::as_floats(corner + r * ow * s.c_out,
                            std::min<std::int64_t>(kTile, ow - ox) * s.c_out,
                            work.staged.get() + r * line);
      }
    } else {
      from = corner;
      line = ow * s.c_out;
    }
    for (std::int64_t o = 0; o < plan.o; o += lanes) {
      const auto first = hn::FirstN(d, existing(o, s.c_out));
      V half[kSize * kTile];  // A dY
      V sum = hn::Load(d, bias_sums + o);
      for (int q = 0; q < kTile; ++q) {
        V column[kSize];
        for (int r = 0; r < kTile; ++r) {
          const bool inside = oy + r < oh && ox + q < ow;
          column[r] =
              inside ? hn::MaskedLoad(first, d, from + r * line + q * s.c_out + o) : hn::Zero(d);
          sum = hn::Add(sum, column[r]);
        }
        Scheme<kTile>::gradient(column, column, 1);
        for (int row = 0; row < kSize; ++row) half[row * kTile + q] = column[row];
      }
      hn::Store(sum, d, bias_sums + o);
      float* to = work.m.get() + tile * plan.o + o;
      for (int row = 0; row < kSize; ++row) {
        V whole[kSize];
        Scheme<kTile>::gradient(half + row * kTile, whole, 1);
        for (int q = 0; q < kSize; ++q) hn::Store(whole[q], d, to + (row * kSize + q) * step);
      }
    }
  }
}

// dg = G^T dU G, from dU as [element][c][o]. Returns true if all of dg is finite.
template <int kTile, typename T>
bool transform_back(const Plan& plan, const float* du, T* dweight) {
  constexpr int kSize = Scheme<kTile>::kSize;
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Conv2dShape& s = plan.s;
  const std::int64_t element = apart(s.c_in * plan.o);
  std::atomic<bool> finite{true};
  constexpr std::int64_t kGrain = 4096;  // filters worth a thread
  parallel_for(
      plan.o / lanes, kGrain / (lanes * s.c_in) + 1, [&](std::int64_t begin, std::int64_t end) {
        V fault = hn::Zero(d);  // becomes NaN if an element is not finite
        for (std::int64_t o = begin * lanes; o < std::min(end * lanes, s.c_out); o += lanes) {
          for (std::int64_t c = 0; c < s.c_in; ++c) {
            const float* from = du + c * plan.o + o;
            V half[3 * kSize];  // G^T dU
            for (int q = 0; q < kSize; ++q) {
              V column[kSize];
              for (int row = 0; row < kSize; ++row) {
                column[row] = hn::Load(d, from + (row * kSize + q) * element);
              }
              Scheme<kTile>::weight_gradient(column, column, 1);
              for (int row = 0; row < 3; ++row) half[row * kSize + q] = column[row];
            }
            HWY_ALIGN float taps[9 * hn::MaxLanes(D())];
            for (int row = 0; row < 3; ++row) {
              V line[3];
              Scheme<kTile>::weight_gradient(half + row * kSize, line, 1);
              for (int q = 0; q < 3; ++q) {
                hn::Store(line[q], d, taps + (row * 3 + q) * lanes);
                fault = hn::MulAdd(line[q], hn::Zero(d), fault);
              }
            }
            for (std::int64_t i = 0; i < std::min(lanes, s.c_out - o); ++i) {
              T* to = dweight + ((o + i) * s.c_in + c) * 9;
              for (std::int64_t tap = 0; tap < 9; ++tap)
                to[tap] = static_cast<T>(taps[tap * lanes + i]);
            }
          }
        }
        if (!hn::AllFalse(d, hn::IsNaN(fault))) finite.store(false, std::memory_order_relaxed);
      });
  return finite.load(std::memory_order_relaxed);
}

// Returns false if a gradient is not finite; float32 is recomputed by the caller then.
template <int kTile, typename T>
bool weights_of_tiles(const Conv2dShape& s, const T* x, const T* dy, T* dweight, T* dbias) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  const Plan plan(s, kTile, width / 2);
  const std::int64_t element = apart(s.c_in * plan.o);
  const std::int64_t part_size = plan.elements * element + plan.o;  // dU, and the bias's sums
  const int parts = parts_of(plan.strips(), 1);
  const Floats sums = floats(parts * part_size);
  parallel_parts(plan.strips(), 1, [&](int part, std::int64_t begin, std::int64_t end) {
    float* du = sums.get() + part * part_size;
    float* const sums_of_bias = du + plan.elements * element;
    std::fill_n(sums_of_bias, plan.o, 0.0F);
    for (std::int64_t e = 0; e < plan.elements; ++e) {  // the first strip writes the rest
      std::fill(du + e * element + (begin == end ? 0 : s.c_in * plan.o), du + (e + 1) * element,
                0.0F);
    }
    Workspace work(plan);
    for (std::int64_t number = begin; number < end; ++number) {
      const Strip strip(plan, number);
      transform_input<kTile>(plan, strip, x, work);
      transform_gradient<kTile>(plan, strip, dy, work, sums_of_bias);
      for (std::int64_t e = 0; e < plan.elements; ++e) {
        for (std::int64_t o = 0; o < plan.o; o += width) {
          product_rows(s.c_in, strip.tiles, work.v.get() + e * apart(strip.tiles * plan.c), 1,
                       plan.c, work.m.get() + e * apart(strip.tiles * plan.o) + o, plan.o,
                       number != begin, du + e * element + o, plan.o);
        }
      }
    }
  });
  parallel_for(part_size, 64 * 1024, [&](std::int64_t begin, std::int64_t end) {
    for (int part = 1; part < parts; ++part) {
      for (std::int64_t i = begin; i < end; ++i) sums[i] += sums[part * part_size + i];
    }
  });
  const float* const bias_sums = sums.get() + plan.elements * element;
  for (std::int64_t o = 0; dbias != nullptr && o < s.c_out; ++o) {
    dbias[o] = static_cast<T>(bias_sums[o]);
  }
  return transform_back<kTile>(plan, sums.get(), dweight);
}

bool winograd_weights_f32(int tile, const Conv2dShape& s, const float* x, const float* dy,
                          float* dweight, float* dbias) {
  return tile == 2 ? weights_of_tiles<2>(s, x, dy, dweight, dbias)
                   : weights_of_tiles<4>(s, x, dy, dweight, dbias);
}
bool winograd_weights_bf16(int tile, const Conv2dShape& s, const BFloat16* x, const BFloat16* dy,
                           BFloat16* dweight, BFloat16* dbias) {
  return tile == 2 ? weights_of_tiles<2>(s, x, dy, dweight, dbias)
                   : weights_of_tiles<4>(s, x, dy, dweight, dbias);
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {

HWY_EXPORT(winograd_weights_f32);
HWY_EXPORT(winograd_weights_bf16);

void winograd_conv2d_backward_weights(int tile, const Conv2dShape& s, const float* x,
                                      const float* dy, float* dweight, float* dbias) {
  if (!HWY_DYNAMIC_DISPATCH(winograd_weights_f32)(tile, s, x, dy, dweight, dbias)) {
    direct_conv2d_mend_weights(s, x, dy, dweight);
  }
}

bool winograd_conv2d_backward_weights(int tile, const Conv2dShape& s, const BFloat16* x,
                                      const BFloat16* dy, BFloat16* dweight, BFloat16* dbias) {
  return HWY_DYNAMIC_DISPATCH(winograd_weights_bf16)(tile, s, x, dy, dweight, dbias);
}

}  // namespace dl::kernels
#endif
