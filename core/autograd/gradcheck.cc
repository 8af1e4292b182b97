#include "core/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "core/autograd/grad_mode.h"
#include "core/tensor/factories.h"

namespace dl {
namespace {

// Weights of the outputs: different for neighbours, so that a transposed gradient does not pass.
double weight_of(std::int64_t i) noexcept {
  return 0.5 + 0.25 * std::sin(1.0 + 0.7 * static_cast<double>(i));
}

double weighted_sum(const Tensor& output) {
  const Tensor flat = output.contiguous();
  const double* const values = flat.data<double>();
  double total = 0;
  for (std::int64_t i = 0; i < flat.numel(); ++i) total += weight_of(i) * values[i];
  return total;
}

std::string position(const Shape& shape, std::int64_t element) {
  Dims index(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = element % shape[d];
    element /= shape[d];
  }
  return index.str();
}

}  // namespace

double gradcheck(std::string_view what, const std::function<Tensor(const std::vector<Tensor>&)>& f,
                 const std::vector<Tensor>& inputs, GradcheckOptions options) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    DL_CHECK(!inputs[i].requires_grad() || (inputs[i].dtype() == DType::kF64 &&
                                            inputs[i].is_contiguous() && inputs[i].is_leaf()),
             kInvalidArgument, "gradcheck of {}: input {} is no contiguous float64 leaf", what, i);
    inputs[i].zero_grad();
  }
  const Tensor output = f(inputs);
  DL_CHECK(output.dtype() == DType::kF64, kDType, "gradcheck of {}: the result is {}, not float64",
           what, name_of(output.dtype()));
  Tensor weights = empty(output.sizes(), {.dtype = DType::kF64});
  for (std::int64_t i = 0; i < weights.numel(); ++i) weights.data<double>()[i] = weight_of(i);
  output.backward(weights);

  const NoGradGuard no_grad;
  double largest = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Tensor grad = inputs[i].grad();
    DL_CHECK(grad.defined() || inputs[i].numel() == 0, kMismatch,
             "gradcheck of {}: input {} got no gradient", what, i);
    double* const x = inputs[i].data<double>();
    for (std::int64_t k = 0; k < inputs[i].numel(); ++k) {
      const double before = x[k];
      x[k] = before + options.step;
      const double above = weighted_sum(f(inputs));
      x[k] = before - options.step;
      const double below = weighted_sum(f(inputs));
      x[k] = before;
      const double expected = (above - below) / (2 * options.step);
      const double got = grad.contiguous().data<double>()[k];
      const double error = std::abs(got - expected);
      const double relative = error / std::max({std::abs(got), std::abs(expected), 1e-12});
      const bool fits = error <= options.absolute || relative <= options.relative;
      DL_CHECK(
          fits, kMismatch,
          "gradcheck of {}: input {}, element {}: the gradient is {}, central differences give "
          "{}",
          what, i, position(inputs[i].sizes(), k), got, expected);
      if (error > options.absolute) largest = std::max(largest, relative);
    }
  }
  return largest;
}

}  // namespace dl
