// A ReLU over plain memory, after kernels that do not fuse it.
#pragma once

#include <cstdint>

#include "core/device/parallel.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels {

// y = max(0, y); NaN stays NaN.
template <typename T>
void relu_in_place(std::int64_t n, T* y) {
  parallel_for(n, 16 * 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = formulas::Relu::value(y[i]);
  });
}

}  // namespace dl::kernels
