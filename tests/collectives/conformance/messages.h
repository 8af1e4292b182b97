// Messages of numbers, for tests.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "collectives/api/process_group.h"

namespace dl::collectives::testing {

inline std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> x(count);
  std::iota(x.begin(), x.end(), first);
  return x;
}

inline Ref<Work> send(ProcessGroup& group, const std::vector<int>& x, int peer,
                      std::uint32_t tag = 0) {
  return group.send(
      {.buffer = x.data(), .count = x.size(), .dtype = DType::kI32, .peer = peer, .tag = tag});
}

inline std::vector<int> receive(ProcessGroup& group, std::size_t count, int peer,
                                std::uint32_t tag = 0) {
  std::vector<int> x(count);
  group.recv({.buffer = x.data(), .count = count, .dtype = DType::kI32, .peer = peer, .tag = tag})
      ->wait();
  return x;
}

}  // namespace dl::collectives::testing
