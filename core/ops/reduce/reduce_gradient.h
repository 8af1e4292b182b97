// The gradients of reductions.
#pragma once

#include "core/ops/dispatch/kernel_names.h"
#include "core/reductions/list.h"
#include "core/tensor/tensor.h"

namespace dl {

// Which tensors the gradient needs. `saves_output` follows PyTorch, so that the same in-place
// writes are allowed: its norms save the output even if their gradients do not read it.
bool gradient_reads_input(ReduceFn fn) noexcept;
bool saves_output(ReduceFn fn) noexcept;

struct ReductionGradient {
  ReduceFn fn;
  Tensor grad;    // of the output, with reduced dimensions of size 1
  Tensor input;   // undefined unless gradient_reads_input()
  Tensor output;  // as grad; undefined unless saves_output()
  Shape shape;    // of the input
  Dims dims;      // the reduced dimensions
  double count;   // elements of a result
  double p;
};
// The gradient of the input. Runs without recording.
Tensor gradient_of(const ReductionGradient& at);

// The gradient of an extreme or median over all elements: all elements that equal it (all NaNs if
// it is NaN) share the gradient evenly. `gradient` and `chosen` are 0-d.
Tensor shared_among_equals(const Tensor& gradient, const Tensor& input, const Tensor& chosen);

}  // namespace dl
