// Arithmetic that schedules share. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/algorithms/parts.h"

namespace dl::collectives {

// The part of [0, count) elements for which rank `i` of `size` is responsible, in bytes; parts
// differ by at most one element.
inline Part chunk_of(std::size_t count, std::size_t element, int size, int i) noexcept {
  const auto ranks = static_cast<std::size_t>(size);
  const auto index = static_cast<std::size_t>(i);
  const std::size_t quotient = count / ranks;
  const std::size_t rest = count % ranks;
  const std::size_t begin = index * quotient + std::min(index, rest);
  return {begin * element, (quotient + (index < rest ? 1 : 0)) * element};
}

inline std::vector<Part> even_parts(const Descriptor& d, int size) {
  std::vector<Part> parts;
  parts.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) parts.push_back(chunk_of(d.count, size_of(d.dtype), size, i));
  return parts;
}

inline int modulo(int a, int size) noexcept {
  return (a % size + size) % size;
}

inline int last(const std::vector<Transfer>& transfers) noexcept {
  return static_cast<int>(transfers.size()) - 1;
}

}  // namespace dl::collectives
