// Sums over ranks of a few numbers.
#pragma once

#include <array>
#include <cstddef>

#include "collectives/api/process_group.h"
#include "core/tensor/dtype.h"

namespace dl::examples {

template <typename T, std::size_t kCount>
void sum_over_ranks(std::array<T, kCount>& values, collectives::ProcessGroup& group) {
  group
      .all_reduce(
          {.input = values.data(), .output = values.data(), .count = kCount, .dtype = kDTypeOf<T>})
      ->wait();
}

}  // namespace dl::examples
