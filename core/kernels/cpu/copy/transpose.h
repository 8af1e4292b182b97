// Copies between layouts whose innermost dimensions differ.
#pragma once

#include <cstdint>

namespace dl::kernels::cpu {

// to[r * to_step + c] = from[c * from_step + r] for elements of the width of Bits, an unsigned
// integer: rows of the output from columns of the input. Reads and writes whole cache lines, tile
// by tile. The two must not overlap.
template <typename Bits>
void transpose(const Bits* from, std::int64_t from_step, Bits* to, std::int64_t to_step,
               std::int64_t rows, std::int64_t columns) noexcept;

extern template void transpose(const std::uint8_t*, std::int64_t, std::uint8_t*, std::int64_t,
                               std::int64_t, std::int64_t) noexcept;
extern template void transpose(const std::uint16_t*, std::int64_t, std::uint16_t*, std::int64_t,
                               std::int64_t, std::int64_t) noexcept;
extern template void transpose(const std::uint32_t*, std::int64_t, std::uint32_t*, std::int64_t,
                               std::int64_t, std::int64_t) noexcept;
extern template void transpose(const std::uint64_t*, std::int64_t, std::uint64_t*, std::int64_t,
                               std::int64_t, std::int64_t) noexcept;

}  // namespace dl::kernels::cpu
