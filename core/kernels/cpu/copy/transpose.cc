#include "core/kernels/cpu/copy/transpose.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace dl::kernels::cpu {
namespace {

// Four adjacent elements, as a vector type of the compiler.
using Four = std::uint32_t __attribute__((vector_size(16)));

Four load_four(const std::uint32_t* from) {
  Four result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}
void store_four(Four value, std::uint32_t* to) {
  std::memcpy(to, &value, sizeof(value));
}

constexpr std::int64_t kLineBytes = 64;
// Columns of a panel: their input pages stay in the TLB while rows advance.
constexpr std::int64_t kPanel = 256;

// Four rows of four elements.
void transpose_four(const std::uint32_t* from, std::int64_t from_step, std::uint32_t* to,
                    std::int64_t to_step) {
  const Four a = load_four(from);
  const Four b = load_four(from + from_step);
  const Four c = load_four(from + 2 * from_step);
  const Four d = load_four(from + 3 * from_step);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_four(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), to);
  store_four(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), to + to_step);
  store_four(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * to_step);
  store_four(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * to_step);
}

// An incomplete tile.
template <typename Bits>
void transpose_part(const Bits* from, std::int64_t from_step, Bits* to, std::int64_t to_step,
                    std::int64_t rows, std::int64_t columns) {
  std::int64_t by_fours = 0;  // rows
  if constexpr (std::is_same_v<Bits, std::uint32_t>) {
    by_fours = columns % 4 == 0 ? rows / 4 * 4 : 0;
    for (std::int64_t r = 0; r < by_fours; r += 4) {
      for (std::int64_t c = 0; c < columns; c += 4) {
        transpose_four(from + c * from_step + r, from_step, to + r * to_step + c, to_step);
      }
    }
  }
  for (std::int64_t r = by_fours; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[r * to_step + c] = from[c * from_step + r];
  }
}

// A whole tile; both sides are one cache line long.
template <typename Bits>
void transpose_tile(const Bits* from, std::int64_t from_step, Bits* to, std::int64_t to_step) {
  constexpr std::int64_t kSide = kLineBytes / static_cast<std::int64_t>(sizeof(Bits));
  alignas(64) Bits tile[kSide * kSide];
  if constexpr (std::is_same_v<Bits, std::uint32_t>) {
    transpose_part(from, from_step, tile, kSide, kSide, kSide);
  } else {
    for (std::int64_t c = 0; c < kSide; ++c) {
      for (std::int64_t r = 0; r < kSide; ++r) tile[r * kSide + c] = from[c * from_step + r];
    }
  }
  for (std::int64_t r = 0; r < kSide; ++r) {
    std::memcpy(to + r * to_step, tile + r * kSide, kLineBytes);
  }
}

}  // namespace

template <typename Bits>
void transpose(const Bits* from, std::int64_t from_step, Bits* to, std::int64_t to_step,
               std::int64_t rows, std::int64_t columns) noexcept {
  constexpr std::int64_t kSide = kLineBytes / static_cast<std::int64_t>(sizeof(Bits));
  for (std::int64_t panel = 0; panel < columns; panel += kPanel) {
    const std::int64_t end = std::min(columns, panel + kPanel);
    for (std::int64_t r = 0; r < rows; r += kSide) {
      const std::int64_t height = std::min(kSide, rows - r);
      for (std::int64_t c = panel; c < end; c += kSide) {
        const std::int64_t width = std::min(kSide, end - c);
        const Bits* const in = from + c * from_step + r;
        Bits* const out = to + r * to_step + c;
        if (height == kSide && width == kSide) {
          transpose_tile(in, from_step, out, to_step);
        } else {
          transpose_part(in, from_step, out, to_step, height, width);
        }
      }
    }
  }
}

template void transpose(const std::uint8_t*, std::int64_t, std::uint8_t*, std::int64_t,
                        std::int64_t, std::int64_t) noexcept;
template void transpose(const std::uint16_t*, std::int64_t, std::uint16_t*, std::int64_t,
                        std::int64_t, std::int64_t) noexcept;
template void transpose(const std::uint32_t*, std::int64_t, std::uint32_t*, std::int64_t,
                        std::int64_t, std::int64_t) noexcept;
template void transpose(const std::uint64_t*, std::int64_t, std::uint64_t*, std::int64_t,
                        std::int64_t, std::int64_t) noexcept;

}  // namespace dl::kernels::cpu
