// Engine: one backward pass, on the caller's thread.
//
// Nodes run when all that used their outputs have run, the latest recorded first, leaves at once.
// The order depends on the graph alone. Nothing recurses. A hook may start a backward pass of its
// own.
#pragma once

#include <span>

#include "core/tensor/tensor.h"

namespace dl {

// Gradients of the sum of all roots, each weighted by its gradient (undefined: ones, for a root of
// one element). Throws kInvalidArgument for a root without history, a graph that was freed already,
// or a saved tensor that was changed in place; kShape and kDType for a gradient that does not fit.
void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients,
              BackwardOptions options = {});

}  // namespace dl
