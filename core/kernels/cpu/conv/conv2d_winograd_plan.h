// How Winograd's convolution (conv2d_winograd.cc) is cut into strips, and a thread's working
// memory.
#pragma once

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstdint>

#include "core/device/parallel.h"
#include "core/kernels/cpu/conv/conv2d.h"

namespace dl::kernels::winograd {

inline constexpr std::int64_t kElements = 16;  // of a transformed tile
inline constexpr std::int64_t kStripTiles = 64;

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
  // Many tiles should share one read of the weights, but every thread should have a strip.
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

  // The first element of a tile's 2x2 part of the output.
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

  // Loads the strip's rows of one image with their padding. Channels that exist only because their
  // count was rounded up are zero.
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

}  // namespace dl::kernels::winograd
