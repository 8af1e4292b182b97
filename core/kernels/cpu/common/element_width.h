// Loops that move elements and compute nothing need only know how wide one is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::kernels::cpu {

// body.operator()<Bits>() with the unsigned integer of an element's width in bytes.
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

}  // namespace dl::kernels::cpu
