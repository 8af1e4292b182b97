// Reads a reduction's input for its rows: in place if elements are dense and in the compute type,
// otherwise through a packed block.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

struct Source {
  explicit Source(const Tensor& input) : Source(input, compute_dtype_of(input.dtype())) {}
  Source(const Tensor& input, DType read_as)
      : data(static_cast<const char*>(input.data_ptr())),
        width(static_cast<std::int64_t>(size_of(input.dtype()))),
        compute_dtype(read_as),
        load(load_as(input.dtype(), compute_dtype)),
        is_converted(input.dtype() != compute_dtype && input.dtype() != DType::kU64) {}

  static constexpr std::int64_t kPacked = 4096;  // elements
  using Pack = std::array<std::uint64_t, kPacked>;

  const char* at(std::int64_t element) const noexcept { return data + element * width; }
  std::int64_t compute_width() const noexcept {
    return static_cast<std::int64_t>(size_of(compute_dtype));
  }

  // visit(elements, count, first) for the `count` elements that begin at `begin`, `step` apart, in
  // dense blocks of the compute type.
  template <typename Visit>
  void for_blocks(std::int64_t begin, std::int64_t step, std::int64_t count, Pack& pack,
                  const Visit& visit) const {
    if (!is_converted && (step == 1 || count == 1)) return visit(at(begin), count, std::int64_t{0});
    for (std::int64_t i = 0; i < count; i += kPacked) {
      const std::int64_t part = std::min(kPacked, count - i);
      load(at(begin + i * step), step, pack.data(), part);
      visit(static_cast<const void*>(pack.data()), part, i);
    }
  }

  // visit(elements, rows, step, first) for `rows` rows of dense `columns` (at most kPacked), which
  // begin at `begin`, `row_step` apart.
  template <typename Visit>
  void for_rows(std::int64_t begin, std::int64_t row_step, std::int64_t rows, std::int64_t columns,
                Pack& pack, const Visit& visit) const {
    if (!is_converted) return visit(at(begin), rows, row_step, std::int64_t{0});
    const std::int64_t at_once = kPacked / columns;
    for (std::int64_t r = 0; r < rows; r += at_once) {
      const std::int64_t part = std::min(at_once, rows - r);
      auto* const to = reinterpret_cast<char*>(pack.data());
      for (std::int64_t k = 0; k < part; ++k) {
        load(at(begin + (r + k) * row_step), 1, to + k * columns * compute_width(), columns);
      }
      visit(static_cast<const void*>(pack.data()), part, columns, r);
    }
  }

  const char* data;
  std::int64_t width;
  DType compute_dtype;
  Load load;
  bool is_converted;
};

}  // namespace dl::kernels::cpu
