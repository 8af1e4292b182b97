// Weighted sums along the rows and the columns of images: average pooling, resampling, and the
// gradients of both, which have the same form.
#pragma once

#include "core/tensor/tensor.h"

namespace dl {
struct Taps2d;
}

namespace dl::kernels::cpu {

// y[n, c, i, j] = sum over taps of x[n, c, rows.index, columns.index] times both weights. Floating;
// both channels-last.
void taps2d(const Taps2d& taps, const Tensor& x, const Tensor& y);

}  // namespace dl::kernels::cpu
