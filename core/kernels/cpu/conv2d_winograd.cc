// 3x3 convolution with stride 1 by Winograd's minimal filtering F(2x2, 3x3), channels-last.
//
// Each 2x2 tile of the output needs 16 products per pair of channels in place of 36 (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", 2016, section 4):
//
//     Y = A^T [ (G g G^T) . (B^T d B) ] A        d: the tile's 4x4 of the input, g: the 3x3 filter
//
// so that over all channels the products become 16 matrix products, one for each element of the
// transformed tile:   M[e] = V[e] U[e],   [tiles, c_in] x [c_in, c_out].
// The gradient of the weights is this formula's own: dU[e] = V[e]^T dM[e] with dM = A dY A^T, and
// dg = G^T dU G. The gradient of the input is the convolution of dY with the filters turned around.
//
// The matrices hold small sums with the factors 1 and 1/2 only, so f32 results stay within a few
// units in the last place of the direct sum's. Work is cut into strips of some 64 tiles: few enough
// that their transformed data fit a core's second-level cache, enough to be worth a reading of the
// weights.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/kernels/cpu/conv2d.h"
#include "core/kernels/cpu/parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/conv2d_winograd.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#ifndef DLRUN_CORE_KERNELS_CPU_CONV2D_WINOGRAD_
#define DLRUN_CORE_KERNELS_CPU_CONV2D_WINOGRAD_
namespace dl::kernels {
namespace {

constexpr std::int64_t kElements = 16;  // of a transformed tile
constexpr std::int64_t kStripTiles = 64;
constexpr std::int64_t kRows = 6;  // of a product's block in registers: 12 sums

using Floats = hwy::AlignedFreeUniquePtr<float[]>;
inline Floats floats(std::int64_t n) {
  return hwy::AllocateAligned<float>(static_cast<std::size_t>(n));
}

// How one convolution is cut up: into strips of some rows of one image's tiles, or of several whole
// images. Channel counts are rounded up to whole vectors.
struct Plan {
  Plan(const Conv2dShape& shape, std::int64_t lanes)
      : s(shape),
        c(round_up(s.c_in, lanes)),
        o(round_up(s.c_out, 2 * lanes)),
        tiles_w((s.out_w() + 1) / 2),
        tiles_h((s.out_h() + 1) / 2),
        rows(std::clamp<std::int64_t>(kStripTiles / tiles_w, 1, tiles_h)),
        images(rows == tiles_h ? images_for(kStripTiles / (tiles_h * tiles_w)) : 1),
        row_strips((tiles_h + rows - 1) / rows) {}
  static std::int64_t round_up(std::int64_t n, std::int64_t unit) {
    return (n + unit - 1) / unit * unit;
  }
  // Many tiles share one reading of the weights, but every thread should have a strip.
  std::int64_t images_for(std::int64_t wanted) const {
    const std::int64_t share = (s.n + num_threads() - 1) / num_threads();
    return std::clamp<std::int64_t>(wanted, 1, share);
  }
  std::int64_t strips() const { return (s.n + images - 1) / images * row_strips; }
  std::int64_t max_tiles() const { return images * rows * tiles_w; }

  Conv2dShape s;
  std::int64_t c, o;
  std::int64_t tiles_w, tiles_h;
  std::int64_t rows, images;  // of a strip
  std::int64_t row_strips;    // of an image
};

struct Strip {
  Strip(const Plan& plan, std::int64_t number)
      : first_image(number / plan.row_strips * plan.images),
        images(std::min(plan.images, plan.s.n - first_image)),
        first_row(number % plan.row_strips * plan.rows),
        rows(std::min(plan.rows, plan.tiles_h - first_row)),
        image_tiles(rows * plan.tiles_w),
        tiles(images * image_tiles) {}

  // Where a tile's 2x2 part of the output begins.
  struct Corner {
    std::int64_t image, y, x;
  };
  Corner corner(const Plan& plan, std::int64_t tile) const {
    const std::int64_t in_image = tile % image_tiles;
    return {first_image + tile / image_tiles, 2 * (first_row + in_image / plan.tiles_w),
            2 * (in_image % plan.tiles_w)};
  }

  std::int64_t first_image, images;
  std::int64_t first_row, rows;
  std::int64_t image_tiles, tiles;
};

// A thread's working memory.
struct Workspace {
  explicit Workspace(const Plan& plan)
      : frame_row((2 * plan.tiles_w + 2) * plan.c),
        frame(floats((2 * plan.rows + 2) * frame_row)),
        v(floats(kElements * plan.max_tiles() * plan.c)),
        m(floats(kElements * plan.max_tiles() * plan.o)) {}

  // The strip's rows of one image's input inside their padding, with zeros in the channels that do
  // not exist.
  void load(const Plan& plan, const Strip& strip, std::int64_t image, const float* x) {
    const Conv2dShape& s = plan.s;
    const std::int64_t width = 2 * plan.tiles_w + 2;
    for (std::int64_t r = 0; r < 2 * strip.rows + 2; ++r) {
      float* to = frame.get() + r * frame_row;
      const std::int64_t y = 2 * strip.first_row + r - s.pad_h;
      const std::int64_t begin = std::min(width, s.pad_w);
      const std::int64_t end = y < 0 || y >= s.h ? begin : std::min(width, s.pad_w + s.w);
      std::fill(to, to + begin * plan.c, 0.0F);
      std::fill(to + end * plan.c, to + frame_row, 0.0F);
      if (begin == end) continue;
      const float* from = x + ((image * s.h + y) * s.w + begin - s.pad_w) * s.c_in;
      if (plan.c == s.c_in) {
        std::copy_n(from, (end - begin) * s.c_in, to + begin * plan.c);
        continue;
      }
      for (std::int64_t p = begin; p < end; ++p, from += s.c_in) {
        std::copy_n(from, s.c_in, to + p * plan.c);
        std::fill(to + p * plan.c + s.c_in, to + (p + 1) * plan.c, 0.0F);
      }
    }
  }

  std::int64_t frame_row;
  Floats frame;
  Floats v;  // [element][tile][c]
  Floats m;  // [element][tile][o]
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

// All rows, in blocks as even as can be.
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

// U = G g G^T as [element][block of 2 vectors of o][c][2 vectors]; filter(o, c) gives g's 9
// numbers, or those numbers backwards.
template <typename Filter>
Floats transform_weight(const Plan& plan, const Filter& filter) {
  const auto width = static_cast<std::int64_t>(2 * hn::Lanes(D()));
  Floats u = floats(kElements * plan.s.c_in * plan.o);
  std::fill_n(u.get(), kElements * plan.s.c_in * plan.o, 0.0F);
  for (std::int64_t o = 0; o < plan.s.c_out; ++o) {
    for (std::int64_t c = 0; c < plan.s.c_in; ++c) {
      const auto [g, step] = filter(o, c);
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

// How many of a vector's lanes at channel `o` exist.
HWY_INLINE std::size_t existing(std::int64_t o, std::int64_t channels) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  return static_cast<std::size_t>(std::clamp<std::int64_t>(channels - o, 0, lanes));
}

// The strip's part of y: A^T M A, the bias and the ReLU.
void transform_output(const Plan& plan, const Strip& strip, const Workspace& work,
                      const float* bias, bool relu, float* y) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const Conv2dShape& s = plan.s;
  const std::int64_t oh = s.out_h();
  const std::int64_t ow = s.out_w();
  const std::int64_t step = strip.tiles * plan.o;
  for (std::int64_t tile = 0; tile < strip.tiles; ++tile) {
    const auto [image, oy, ox] = strip.corner(plan, tile);
    float* to = y + ((image * oh + oy) * ow + ox) * s.c_out;
    for (std::int64_t o = 0; o < s.c_out; o += static_cast<std::int64_t>(lanes)) {
      const float* from = work.m.get() + tile * plan.o + o;
      V half[2][4];  // A^T M
      for (int x = 0; x < 4; ++x) {
        const V m0 = hn::Load(d, from + (0 + x) * step);
        const V m1 = hn::Load(d, from + (4 + x) * step);
        const V m2 = hn::Load(d, from + (8 + x) * step);
        const V m3 = hn::Load(d, from + (12 + x) * step);
        half[0][x] = hn::Add(hn::Add(m0, m1), m2);
        half[1][x] = hn::Sub(hn::Sub(m1, m2), m3);
      }
      const std::size_t exist = existing(o, s.c_out);
      const auto first = hn::FirstN(d, exist);
      const V b = bias == nullptr ? hn::Zero(d) : hn::MaskedLoad(first, d, bias + o);
      for (int r = 0; r < 2 && oy + r < oh; ++r) {
        const V* h = half[r];
        V out[2] = {hn::Add(hn::Add(hn::Add(h[0], h[1]), h[2]), b),
                    hn::Add(hn::Sub(hn::Sub(h[1], h[2]), h[3]), b)};
        for (int q = 0; q < 2 && ox + q < ow; ++q) {
          // Not Max: a NaN must stay one.
          if (relu) out[q] = hn::IfThenZeroElse(hn::Lt(out[q], hn::Zero(d)), out[q]);
          float* pixel = to + (r * ow + q) * s.c_out + o;
          if (exist == lanes) {
            hn::StoreU(out[q], d, pixel);
          } else {
            hn::BlendedStore(out[q], first, d, pixel);
          }
        }
      }
    }
  }
}

template <typename Filter>
void convolve(const Conv2dShape& s, const float* x, const Filter& filter, const float* bias,
              bool relu, float* y) {
  const Plan plan(s, static_cast<std::int64_t>(hn::Lanes(D())));
  const Floats u = transform_weight(plan, filter);
  parallel_for(plan.strips(), 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace work(plan);
    for (std::int64_t number = begin; number < end; ++number) {
      const Strip strip(plan, number);
      transform_input(plan, strip, x, work);
      multiply(plan, strip, u.get(), work);
      transform_output(plan, strip, work, bias, relu, y);
    }
  });
}

void forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias,
             bool relu, float* y) {
  convolve(
      s, x,
      [&](std::int64_t o, std::int64_t c) {
        return std::pair(weight + (o * s.c_in + c) * 9, std::int64_t{1});
      },
      bias, relu, y);
}

void backward_data(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  Conv2dShape turned = s;
  turned.c_in = s.c_out;
  turned.c_out = s.c_in;
  turned.h = s.out_h();
  turned.w = s.out_w();
  turned.pad_h = 2 - s.pad_h;
  turned.pad_w = 2 - s.pad_w;
  convolve(
      turned, dy,
      [&](std::int64_t o, std::int64_t c) {
        return std::pair(weight + (c * s.c_in + o) * 9 + 8, std::int64_t{-1});
      },
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

// dg = G^T dU G, from dU as [element][c][o].
void transform_back(const Plan& plan, const float* du, float* dweight) {
  const std::int64_t element = plan.s.c_in * plan.o;
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
      for (int y = 0; y < 3; ++y) {
        const float* h = half[y];
        to[y * 3 + 0] = h[0] + 0.5F * (h[1] + h[2]);
        to[y * 3 + 1] = 0.5F * (h[1] - h[2]);
        to[y * 3 + 2] = 0.5F * (h[1] + h[2]) + h[3];
      }
    }
  }
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
  transform_back(plan, sums.get(), dweight);
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
