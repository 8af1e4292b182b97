// gradcheck and gradgradcheck: compare recorded gradients, and gradients of gradients, with central
// differences.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

struct GradcheckOptions {
  double step = 1e-6;      // h of (f(x + h) - f(x - h)) / 2h
  double relative = 1e-6;  // largest error, relative to the larger of both gradients
  double absolute = 1e-8;  // errors below this are rounding
};

// `f` maps the inputs to one float64 tensor and must be deterministic. The inputs are contiguous
// float64 leaves. Leaves that require gradients are checked, element by element, for a fixed
// weighting of f's outputs. Returns the largest relative error. Throws kMismatch and names `what`,
// the input, the element and both values.
double gradcheck(std::string_view what, const std::function<Tensor(const std::vector<Tensor>&)>& f,
                 const std::vector<Tensor>& inputs, GradcheckOptions options = {});

// gradcheck() of the function that maps the inputs, and a gradient of f's output, to the gradients
// of the inputs, which create_graph records.
double gradgradcheck(std::string_view what,
                     const std::function<Tensor(const std::vector<Tensor>&)>& f,
                     const std::vector<Tensor>& inputs, GradcheckOptions options = {});

}  // namespace dl
