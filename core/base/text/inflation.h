// How much deflate can hold, so that a file that claims more is refused before memory is allocated.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <cstdint>

namespace dl {

// Deflate cannot shrink data by more than this (zlib's technical details, zlib.net/zlib_tech.html).
inline constexpr std::uint64_t kMostInflation = 1032;

// Whether `packed` bytes of deflate can hold `size` bytes; the last of them may be begun only.
constexpr bool can_inflate_to(std::uint64_t packed, std::uint64_t size) noexcept {
  return size / kMostInflation <= packed;
}

}  // namespace dl
