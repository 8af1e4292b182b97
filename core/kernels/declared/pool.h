// Max pooling, and weighted sums along the rows and the columns of images: average pooling,
// resampling, and the gradients of both, which have the same form. All tensors are floating and
// channels-last.
#pragma once

#include "core/args/window_args.h"
#include "core/kernels/kernel.h"

namespace dl {
struct Taps2d;
}

namespace dl::kernels {

// winner, uint16 of y's shape, receives the element of the window (ky * kw + kx) that is the
// output; 65535: none.
DL_KERNEL(void, max_pool2d,
          (const Tensor& x, const MaxPool2dArgs& args, const Tensor& y, const Tensor& winner))
DL_KERNEL(void, max_pool2d_backward,
          (const Tensor& dy, const Tensor& winner, const MaxPool2dArgs& args, const Tensor& dx))

// y[n, c, i, j] = sum over taps of x[n, c, rows.index, columns.index] times both weights.
DL_KERNEL(void, taps2d, (const Taps2d& taps, const Tensor& x, const Tensor& y))

}  // namespace dl::kernels
