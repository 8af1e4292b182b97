// The gradients of reductions.
#pragma once

#include "core/reductions/list.h"
#include "core/tensor/tensor.h"

namespace dl {

// Whether the gradient is computed from the input and the output.
bool gradient_reads_values(ReduceFn fn) noexcept;

struct ReductionGradient {
  ReduceFn fn;
  Tensor grad;    // of the output, with reduced dimensions of size 1
  Tensor input;   // undefined unless gradient_reads_values()
  Tensor output;  // as grad
  Shape shape;    // of the input
  Dims dims;      // the reduced ones
  double count;   // elements of a result
  double p;
};
// The gradient of the input. Runs without recording.
Tensor gradient_of(const ReductionGradient& at);

// The gradient of an element that was chosen among all: those that equal it, or all NaNs if it is
// one, share it evenly. `gradient` and `chosen` have no dimensions.
Tensor shared_among_equals(const Tensor& gradient, const Tensor& input, const Tensor& chosen);

}  // namespace dl
