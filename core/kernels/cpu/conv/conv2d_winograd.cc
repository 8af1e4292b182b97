// 3x3 convolution with stride 1 by Winograd's minimal filtering F(2x2, 3x3), channels-last.
//
// Each 2x2 tile of the output needs 16 products per pair of channels instead of 36 (Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks", 2016, section 4):
//
//     Y = A^T [ (G g G^T) . (B^T d B) ] A        d: the tile's 4x4 of the input, g: the 3x3 filter
//
// so that over all channels the products become 16 matrix products, one for each element of the
// transformed tile:   M[e] = V[e] U[e],   [tiles, c_in] x [c_in, c_out].
// The gradient of the weights follows from this formula: dU[e] = V[e]^T dM[e] with dM = A dY A^T,
// and dg = G^T dU G. The gradient of the input is the convolution of dY with the reversed filters.
//
// The matrices hold small sums with the factors 1 and 1/2 only, so f32 results stay within a few
// units in the last place of the direct sum's. But those sums mix the window's numbers with the
// rest of the tile, and may subtract infinities or large numbers from each other. Results that are
// not finite are therefore recomputed by the definition (conv2d_direct.h); a finite result had no
// such number in its tile. Work is cut into strips of some 64 tiles: few enough that their
// transformed data fit into the second-level cache, and enough to amortise one read of the weights.
#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/common/parts.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "core/kernels/cpu/conv/conv2d_direct.h"
#include "core/kernels/cpu/conv/conv2d_winograd_plan.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/conv/conv2d_winograd.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using winograd::Floats;
using winograd::floats;
using winograd::kElements;
using winograd::Plan;
using winograd::Strip;
using winograd::Workspace;

constexpr std::int64_t kRows = 6;  // of a product's block in registers: 12 sums

// (a, b, c, d) becomes B^T (a, b, c, d)^T.
HWY_INLINE void input_step(V& a, V& b, V& c, V& d) {
  const V b0 = b;
  a = hn::Sub(a, c);
  b = hn::Add(b0, c);
  c = hn::Sub(c, b0);
  d = hn::Sub(b0, d);
}

// V of a strip.
void transform_input(const Plan& plan, const Strip& strip, const float* x, Workspace& work) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t step = strip.tiles * plan.c;
  for (std::int64_t tile = 0; tile < strip.tiles; ++tile) {
    const std::int64_t in_image = tile % strip.image_tiles;
    if (in_image == 0) work.load(plan, strip, strip.first_image + tile / strip.image_tiles, x);
    const float* corner = work.frame.get() + in_image / plan.tiles_w * 2 * work.frame_row +
                          in_image % plan.tiles_w * 2 * plan.c;
    float* to = work.v.get() + tile * plan.c;
    for (std::int64_t c = 0; c < plan.c; c += lanes) {
      V t[4][4];
      for (int row = 0; row < 4; ++row) {
        const float* from = corner + row * work.frame_row + c;
        for (int q = 0; q < 4; ++q) t[row][q] = hn::Load(d, from + q * plan.c);
        input_step(t[row][0], t[row][1], t[row][2], t[row][3]);
      }
      for (int q = 0; q < 4; ++q) {
        input_step(t[0][q], t[1][q], t[2][q], t[3][q]);
        for (int row = 0; row < 4; ++row) hn::Store(t[row][q], d, to + (row * 4 + q) * step + c);
      }
    }
  }
}

// c[row][2 vectors] = (or +=) sum over k of a[row][k] b[k][2 vectors]; a is read with any strides.
template <int Rows>
HWY_INLINE void product_block(std::int64_t depth, const float* a, std::int64_t a_row,
                              std::int64_t a_depth, const float* b, std::int64_t b_depth, bool add,
                              float* c, std::int64_t c_row) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V low[Rows];
  V high[Rows];
  for (int r = 0; r < Rows; ++r) {
    low[r] = add ? hn::Load(d, c + r * c_row) : hn::Zero(d);
    high[r] = add ? hn::Load(d, c + r * c_row + lanes) : hn::Zero(d);
  }
  for (std::int64_t k = 0; k < depth; ++k, a += a_depth, b += b_depth) {
    const V b0 = hn::Load(d, b);
    const V b1 = hn::Load(d, b + lanes);
    for (int r = 0; r < Rows; ++r) {
      const V x = hn::Set(d, a[r * a_row]);
      low[r] = hn::MulAdd(x, b0, low[r]);
      high[r] = hn::MulAdd(x, b1, high[r]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    hn::Store(low[r], d, c + r * c_row);
    hn::Store(high[r], d, c + r * c_row + lanes);
  }
}

// All rows, in blocks of nearly equal size.
void product_rows(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t a_row,
                  std::int64_t a_depth, const float* b, std::int64_t b_depth, bool add, float* c,
                  std::int64_t c_row) {
  const std::int64_t passes = (rows + kRows - 1) / kRows;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t first = rows * pass / passes;
    const float* from = a + first * a_row;
    float* to = c + first * c_row;
    switch (rows * (pass + 1) / passes - first) {
      case 6:
        product_block<6>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 5:
        product_block<5>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 4:
        product_block<4>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 3:
        product_block<3>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      case 2:
        product_block<2>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
      default:
        product_block<1>(depth, from, a_row, a_depth, b, b_depth, add, to, c_row);
        break;
    }
  }
}

// U = G g G^T as [element][block of 2 vectors of o][c][2 vectors].
Floats transform_weight(const Plan& plan, const Filters& filters) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  Floats u = floats(kElements * plan.s.c_in * plan.o);
  std::fill_n(u.get(), kElements * plan.s.c_in * plan.o, 0.0F);
  for (std::int64_t o = 0; o < plan.s.c_out; ++o) {
    for (std::int64_t c = 0; c < plan.s.c_in; ++c) {
      const float* g = filters.origin + o * filters.by_output + c * filters.by_input;
      const std::int64_t step = filters.by_tap;
      float half[4][3];  // G g
      for (int x = 0; x < 3; ++x) {
        const float g0 = g[step * x];
        const float g1 = g[step * (3 + x)];
        const float g2 = g[step * (6 + x)];
        half[0][x] = g0;
        half[1][x] = 0.5F * (g0 + g1 + g2);
        half[2][x] = 0.5F * (g0 - g1 + g2);
        half[3][x] = g2;
      }
      float* to = u.get() + (o / width * plan.s.c_in + c) * width + o % width;
      const std::int64_t element = plan.s.c_in * plan.o;
      for (int y = 0; y < 4; ++y) {
        const float* h = half[y];
        to[(y * 4 + 0) * element] = h[0];
        to[(y * 4 + 1) * element] = 0.5F * (h[0] + h[1] + h[2]);
        to[(y * 4 + 2) * element] = 0.5F * (h[0] - h[1] + h[2]);
        to[(y * 4 + 3) * element] = h[2];
      }
    }
  }
  return u;
}

// M = V U for a strip.
void multiply(const Plan& plan, const Strip& strip, const float* u, Workspace& work) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  for (std::int64_t e = 0; e < kElements; ++e) {
    for (std::int64_t o = 0; o < plan.o; o += width) {
      product_rows(strip.tiles, plan.s.c_in, work.v.get() + e * strip.tiles * plan.c, plan.c, 1,
                   u + (e * plan.o + o) * plan.s.c_in, width, false,
                   work.m.get() + e * strip.tiles * plan.o + o, plan.o);
    }
  }
}

// The number of valid lanes of the vector at channel `o`.
HWY_INLINE std::size_t existing(std::int64_t o, std::int64_t channels) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  return static_cast<std::size_t>(std::clamp<std::int64_t>(channels - o, 0, lanes));
}

// Y = A^T M A of a tile and a vector of channels, with the bias.
struct TileOutput {
  HWY_INLINE TileOutput(const float* m, std::int64_t step, V bias) {
    const D d;
    V half[2][4];  // A^T M
    for (int x = 0; x < 4; ++x) {
      const V m0 = hn::Load(d, m + (0 + x) * step);
      const V m1 = hn::Load(d, m + (4 + x) * step);
      const V m2 = hn::Load(d, m + (8 + x) * step);
      const V m3 = hn::Load(d, m + (12 + x) * step);
      half[0][x] = hn::Add(hn::Add(m0, m1), m2);
      half[1][x] = hn::Sub(hn::Sub(m1, m2), m3);
    }
    for (int r = 0; r < 2; ++r) {
      const V* h = half[r];
      at[r][0] = hn::Add(hn::Add(hn::Add(h[0], h[1]), h[2]), bias);
      at[r][1] = hn::Add(hn::Sub(hn::Sub(h[1], h[2]), h[3]), bias);
    }
  }
  // NaN if one of the four, or their sum, is not finite; else 0.
  HWY_INLINE V fault() const {
    const V sum = hn::Add(hn::Add(at[0][0], at[0][1]), hn::Add(at[1][0], at[1][1]));
    return hn::Mul(sum, hn::Zero(D()));
  }
  V at[2][2];
};

HWY_INLINE V bias_at(const float* bias, std::int64_t o, std::int64_t channels) {
  const D d;
  return bias == nullptr ? hn::Zero(d)
                         : hn::MaskedLoad(hn::FirstN(d, existing(o, channels)), d, bias + o);
}

// Recomputes the elements of a tile that are not finite.
HWY_NOINLINE void mend_tile(const Plan& plan, const Strip::Corner& corner, const float* m,
                            std::int64_t step, const float* bias, DirectConv2d& direct) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Conv2dShape& s = plan.s;
  for (std::int64_t o = 0; o < s.c_out; o += DirectConv2d::kChannels) {
    bool faulty[2][2] = {};
    const std::int64_t end = std::min(s.c_out, o + DirectConv2d::kChannels);
    for (std::int64_t at = o; at < end; at += lanes) {
      const TileOutput out(m + at, step, bias_at(bias, at, s.c_out));
      const auto first = hn::FirstN(d, existing(at, s.c_out));
      for (int r = 0; r < 2; ++r) {
        for (int q = 0; q < 2; ++q) {
          faulty[r][q] |= !hn::AllFalse(d, hn::AndNot(hn::IsFinite(out.at[r][q]), first));
        }
      }
    }
    for (int r = 0; r < 2 && corner.y + r < s.out_h(); ++r) {
      for (int q = 0; q < 2 && corner.x + q < s.out_w(); ++q) {
        if (faulty[r][q]) direct.write_pixel(corner.image, corner.y + r, corner.x + q, o);
      }
    }
  }
}

// The strip's part of y: A^T M A, the bias and the ReLU.
void transform_output(const Plan& plan, const Strip& strip, const Workspace& work,
                      const float* bias, bool relu, float* y, DirectConv2d& direct) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const Conv2dShape& s = plan.s;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const std::int64_t step = strip.tiles * plan.o;
  for (std::int64_t tile = 0; tile < strip.tiles; ++tile) {
    const Strip::Corner corner = strip.corner(plan, tile);
    const auto [image, oy, ox] = corner;
    float* to = y + ((image * oh + oy) * ow + ox) * s.c_out;
    const float* const from = work.m.get() + tile * plan.o;
    V fault = hn::Zero(d);
    for (std::int64_t o = 0; o < s.c_out; o += static_cast<std::int64_t>(lanes)) {
      TileOutput out(from + o, step, bias_at(bias, o, s.c_out));
      fault = hn::Add(fault, out.fault());
      const std::size_t exist = existing(o, s.c_out);
      const auto first = hn::FirstN(d, exist);
      for (int r = 0; r < 2 && oy + r < oh; ++r) {
        for (int q = 0; q < 2 && ox + q < ow; ++q) {
          V& v = out.at[r][q];
          // Not Max: NaN must stay NaN.
          if (relu) v = hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
          float* pixel = to + (r * ow + q) * s.c_out + o;
          if (exist == lanes) {
            hn::StoreU(v, d, pixel);
          } else {
            hn::BlendedStore(v, first, d, pixel);
          }
        }
      }
    }
    if (!hn::AllFalse(d, hn::IsNaN(fault))) [[unlikely]] {
      mend_tile(plan, corner, from, step, bias, direct);
    }
  }
}

void convolve(const Conv2dShape& s, const float* x, const Filters& filters, const float* bias,
              bool relu, float* y) {
  const Plan plan(s, static_cast<std::int64_t>(hn::Lanes(D())));
  const Floats u = transform_weight(plan, filters);
  DirectConv2d direct(s, x, filters, bias, relu, y);
  parallel_for(plan.strips(), 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace work(plan);
    for (std::int64_t number = begin; number < end; ++number) {
      const Strip strip(plan, number);
      transform_input(plan, strip, x, work);
      multiply(plan, strip, u.get(), work);
      transform_output(plan, strip, work, bias, relu, y, direct);
    }
  });
}

void forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias,
             bool relu, float* y) {
  convolve(s, x, {.origin = weight, .by_output = s.c_in * 9, .by_input = 9, .by_tap = 1}, bias,
           relu, y);
}

void backward_data(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  Conv2dShape turned = s;
  turned.c_in = s.c_out;
  turned.c_out = s.c_in;
  turned.h = s.out_h();
  turned.w = s.out_w();
  turned.pad_h = 2 - s.pad_h;
  turned.pad_w = 2 - s.pad_w;
  convolve(turned, dy, {.origin = weight + 8, .by_output = 9, .by_input = s.c_in * 9, .by_tap = -1},
           nullptr, false, dx);
}

// dM = A dY A^T of a strip, and the sums of dY for the bias.
void transform_gradient(const Plan& plan, const Strip& strip, const float* dy, Workspace& work,
                        float* bias_sums) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Conv2dShape& s = plan.s;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const std::int64_t step = strip.tiles * plan.o;
  for (std::int64_t tile = 0; tile < strip.tiles; ++tile) {
    const auto [image, oy, ox] = strip.corner(plan, tile);
    const float* from = dy + ((image * oh + oy) * ow + ox) * s.c_out;
    for (std::int64_t o = 0; o < plan.o; o += lanes) {
      const auto first = hn::FirstN(d, existing(o, s.c_out));
      V g[2][2];
      V sum = hn::Load(d, bias_sums + o);
      for (int r = 0; r < 2; ++r) {
        for (int q = 0; q < 2; ++q) {
          const bool inside = oy + r < oh && ox + q < ow;
          g[r][q] =
              inside ? hn::MaskedLoad(first, d, from + (r * ow + q) * s.c_out + o) : hn::Zero(d);
          sum = hn::Add(sum, g[r][q]);
        }
      }
      hn::Store(sum, d, bias_sums + o);
      const V half[4][2] = {{g[0][0], g[0][1]},
                            {hn::Add(g[0][0], g[1][0]), hn::Add(g[0][1], g[1][1])},
                            {hn::Sub(g[0][0], g[1][0]), hn::Sub(g[0][1], g[1][1])},
                            {hn::Neg(g[1][0]), hn::Neg(g[1][1])}};
      float* to = work.m.get() + tile * plan.o + o;
      for (int y = 0; y < 4; ++y) {
        const V* h = half[y];
        hn::Store(h[0], d, to + (y * 4 + 0) * step);
        hn::Store(hn::Add(h[0], h[1]), d, to + (y * 4 + 1) * step);
        hn::Store(hn::Sub(h[0], h[1]), d, to + (y * 4 + 2) * step);
        hn::Store(hn::Neg(h[1]), d, to + (y * 4 + 3) * step);
      }
    }
  }
}

// dg = G^T dU G, from dU as [element][c][o]. Returns true if all of dg is finite.
bool transform_back(const Plan& plan, const float* du, float* dweight) {
  const std::int64_t element = plan.s.c_in * plan.o;
  float fault = 0;  // becomes NaN if an element is not finite
  for (std::int64_t o = 0; o < plan.s.c_out; ++o) {
    for (std::int64_t c = 0; c < plan.s.c_in; ++c) {
      const float* from = du + c * plan.o + o;
      float half[3][4];  // G^T dU
      for (int x = 0; x < 4; ++x) {
        const float u0 = from[(0 + x) * element];
        const float u1 = from[(4 + x) * element];
        const float u2 = from[(8 + x) * element];
        const float u3 = from[(12 + x) * element];
        half[0][x] = u0 + 0.5F * (u1 + u2);
        half[1][x] = 0.5F * (u1 - u2);
        half[2][x] = 0.5F * (u1 + u2) + u3;
      }
      float* to = dweight + (o * plan.s.c_in + c) * 9;
      for (std::ptrdiff_t y = 0; y < 3; ++y) {
        const float* h = half[y];
        to[y * 3 + 0] = h[0] + 0.5F * (h[1] + h[2]);
        to[y * 3 + 1] = 0.5F * (h[1] - h[2]);
        to[y * 3 + 2] = 0.5F * (h[1] + h[2]) + h[3];
        fault += 0.0F * (to[y * 3] + to[y * 3 + 1] + to[y * 3 + 2]);
      }
    }
  }
  return fault == 0;
}

void backward_weights(const Conv2dShape& s, const float* x, const float* dy, float* dweight,
                      float* dbias) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  const Plan plan(s, width / 2);
  const std::int64_t element = s.c_in * plan.o;
  const std::int64_t part_size = kElements * element + plan.o;  // dU, and the bias's sums
  const int parts = parts_of(plan.strips(), 1);
  const Floats sums = floats(parts * part_size);
  parallel_parts(plan.strips(), 1, [&](int part, std::int64_t begin, std::int64_t end) {
    float* du = sums.get() + part * part_size;
    std::fill_n(du, part_size, 0.0F);
    Workspace work(plan);
    for (std::int64_t number = begin; number < end; ++number) {
      const Strip strip(plan, number);
      transform_input(plan, strip, x, work);
      transform_gradient(plan, strip, dy, work, du + kElements * element);
      for (std::int64_t e = 0; e < kElements; ++e) {
        for (std::int64_t o = 0; o < plan.o; o += width) {
          product_rows(s.c_in, strip.tiles, work.v.get() + e * strip.tiles * plan.c, 1, plan.c,
                       work.m.get() + e * strip.tiles * plan.o + o, plan.o, true,
                       du + e * element + o, plan.o);
        }
      }
    }
  });
  for (int part = 1; part < parts; ++part) {
    for (std::int64_t i = 0; i < part_size; ++i) sums[i] += sums[part * part_size + i];
  }
  if (!transform_back(plan, sums.get(), dweight)) direct_conv2d_mend_weights(s, x, dy, dweight);
  if (dbias != nullptr) std::copy_n(sums.get() + kElements * element, s.c_out, dbias);
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {

HWY_EXPORT(forward);
HWY_EXPORT(backward_data);
HWY_EXPORT(backward_weights);

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

void winograd_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight,
                             const float* bias, bool relu, float* y) {
  HWY_DYNAMIC_DISPATCH(forward)(s, x, weight, bias, relu, y);
}

void winograd_conv2d_backward_data(const Conv2dShape& s, const float* dy, const float* weight,
                                   float* dx) {
  HWY_DYNAMIC_DISPATCH(backward_data)(s, dy, weight, dx);
}

void winograd_conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy,
                                      float* dweight, float* dbias) {
  HWY_DYNAMIC_DISPATCH(backward_weights)(s, x, dy, dweight, dbias);
}

}  // namespace dl::kernels
#endif
