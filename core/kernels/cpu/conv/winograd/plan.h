// How Winograd's convolution (winograd.cc) is cut into strips, and a thread's working
// memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device/parallel.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/memory/allocator.h"

namespace dl::kernels::winograd {

// Memory from the allocator of tensors, which keeps it for the next step: transformed weights are
// often larger than what malloc keeps.
struct FreeFloats {
  std::size_t bytes = 0;
  void operator()(float* memory) const noexcept { memory::deallocate(memory, bytes); }
};
using Floats = std::unique_ptr<float[], FreeFloats>;
inline Floats floats(std::int64_t n) {
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(float);
  return {static_cast<float*>(memory::allocate(bytes)), FreeFloats{bytes}};
}

// The distance of the matrices of two elements, for matrices of `floats`: one cache line more. In
// steps of a power of two, the elements of a tile would compete for a few places in the cache.
constexpr std::int64_t apart(std::int64_t floats) {
  return floats + 16;
}

// How one convolution is cut up: into tiles of the output, and these into strips of some rows of
// one image's tiles, or of several whole images. Channel counts are rounded up to whole vectors.
struct Plan {
  Plan(const Conv2dShape& shape, std::int64_t tile_size, std::int64_t lanes)
      : s(shape),
        tile(tile_size),
        elements((tile + 2) * (tile + 2)),
        c(round_up(s.c_in, lanes)),
        o(round_up(s.c_out, 2 * lanes)),
        tiles_w((s.out_w() + tile - 1) / tile),
        tiles_h((s.out_h() + tile - 1) / tile),
        rows(std::clamp<std::int64_t>(strip_tiles() / tiles_w, 1, tiles_h)),
        images(rows == tiles_h ? images_for(strip_tiles() / (tiles_h * tiles_w)) : 1),
        row_strips((tiles_h + rows - 1) / rows) {}
  // Few enough that their transformed data fit into the second-level cache, unless the transformed
  // weights are so large that they should be read for many tiles at once.
  std::int64_t strip_tiles() const {
    return tile == 2 ? 64 : std::clamp<std::int64_t>(c * o / 512, 32, 128);
  }
  static std::int64_t round_up(std::int64_t n, std::int64_t unit) {
    return (n + unit - 1) / unit * unit;
  }
  // Many tiles should share one read of the weights, but every thread should have a strip.
  std::int64_t images_for(std::int64_t wanted) const {
    const std::int64_t share = (s.n + num_threads() - 1) / num_threads();
    return std::clamp<std::int64_t>(wanted, 1, share);
  }
  std::int64_t strips() const { return (s.n + images - 1) / images * row_strips; }
  std::int64_t max_tiles() const { return images * rows * tiles_w; }

  Conv2dShape s;
  std::int64_t tile;      // rows and columns of a tile of the output
  std::int64_t elements;  // of a transformed tile
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

  // The first element of a tile's part of the output.
  struct Corner {
    std::int64_t image, y, x;
  };
  Corner corner(const Plan& plan, std::int64_t tile) const {
    const std::int64_t in_image = tile % image_tiles;
    return {first_image + tile / image_tiles, plan.tile * (first_row + in_image / plan.tiles_w),
            plan.tile * (in_image % plan.tiles_w)};
  }

  std::int64_t first_image, images;
  std::int64_t first_row, rows;
  std::int64_t image_tiles, tiles;
};

inline void as_floats(const float* from, std::int64_t count, float* to) {
  std::copy_n(from, count, to);
}
inline void as_floats(const BFloat16* from, std::int64_t count, float* to) {
  cpu::widen(from, to, count);
}

// Null for null.
inline Floats widened(const BFloat16* from, std::int64_t count) {
  if (from == nullptr) return {};
  Floats wide = floats(count);
  as_floats(from, count, wide.get());
  return wide;
}

// A thread's working memory.
struct Workspace {
  explicit Workspace(const Plan& plan)
      : frame_row((plan.tile * plan.tiles_w + 2) * plan.c),
        frame(floats((plan.tile * plan.rows + 2) * frame_row)),
        v(floats(plan.elements * apart(plan.max_tiles() * plan.c))),
        m(floats(plan.elements * apart(plan.max_tiles() * plan.o))),
        staged(floats(plan.tile * plan.tile * plan.s.c_out)) {}

  // Loads the strip's rows of one image with their padding. Channels that exist only because their
  // count was rounded up are zero.
  template <typename T>
  void load(const Plan& plan, const Strip& strip, std::int64_t image, const T* x) {
    const Conv2dShape& s = plan.s;
    const std::int64_t width = plan.tile * plan.tiles_w + 2;
    for (std::int64_t r = 0; r < plan.tile * strip.rows + 2; ++r) {
      float* to = frame.get() + r * frame_row;
      const std::int64_t y = plan.tile * strip.first_row + r - s.pad_h;
      const std::int64_t begin = std::min(width, s.pad_w);
      const std::int64_t end = y < 0 || y >= s.h ? begin : std::min(width, s.pad_w + s.w);
      std::fill(to, to + begin * plan.c, 0.0F);
      std::fill(to + end * plan.c, to + frame_row, 0.0F);
      if (begin == end) continue;
      const T* from = x + ((image * s.h + y) * s.w + begin - s.pad_w) * s.c_in;
      if (plan.c == s.c_in) {
        as_floats(from, (end - begin) * s.c_in, to + begin * plan.c);
        continue;
      }
      for (std::int64_t p = begin; p < end; ++p, from += s.c_in) {
        as_floats(from, s.c_in, to + p * plan.c);
        std::fill(to + p * plan.c + s.c_in, to + (p + 1) * plan.c, 0.0F);
      }
    }
  }

  std::int64_t frame_row;
  Floats frame;
  Floats v;       // [element][tile][c]
  Floats m;       // [element][tile][o]
  Floats staged;  // a tile of the output of another dtype, [row][column][c_out]
};

}  // namespace dl::kernels::winograd
