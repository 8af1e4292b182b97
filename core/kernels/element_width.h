// Dispatch on the width of an element, for loops that only move elements.
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

}  // namespace dl::kernels
