// A part of a tensor as a recorded operation, in both directions: the part as a view, and the whole
// of which the rest is 0. Each is the other's gradient.
#pragma once

#include "core/tensor/tensor.h"

namespace dl {

// The places of the elements of a part in a row-major tensor.
struct Place {
  Shape whole;
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
};

// A view of the part of `whole`, which is row-major.
Tensor part_at(const Tensor& whole, const Place& place);
// The whole with this part, and 0 elsewhere. The elements of a part do not overlap.
Tensor placed(const Tensor& part, const Place& place);

}  // namespace dl
