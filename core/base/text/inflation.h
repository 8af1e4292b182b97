// The largest output that deflate can have, so that a file that claims more is refused before
// memory is allocated.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <cstdint>

namespace dl {

// Deflate cannot shrink data by more than this (zlib's technical details, zlib.net/zlib_tech.html).
inline constexpr std::uint64_t kMostInflation = 1032;

// True if `packed` bytes of deflate can expand to `size` bytes; the last compressed byte may be
// partly used.
constexpr bool can_inflate_to(std::uint64_t packed, std::uint64_t size) noexcept {
  return size / kMostInflation <= packed;
}

}  // namespace dl
