// How elements are moved: dispatch on their width, and whether 16 bytes may be moved at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::kernels {

// Calls body.operator()<Bits>(); Bits is the unsigned integer with the width of an element.
template <typename Body>
void visit_width(std::size_t width, const Body& body) {
  switch (width) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

// True if 16 bytes may be loaded at once from an address, as dlrun's packed kernels and the
// libraries' tensor core kernels do.
inline bool is_aligned(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

}  // namespace dl::kernels
