#include "core/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/tensor/factories.h"

namespace dl {
namespace {

// Weights of the outputs: different for neighbours, so that a transposed gradient does not pass.
double weight_of(std::int64_t i) noexcept {
  return 0.5 + 0.25 * std::sin(1.0 + 0.7 * static_cast<double>(i));
}

double weighted_sum(const std::vector<Tensor>& outputs) {
  double total = 0;
  for (const Tensor& output : outputs) {
    const Tensor flat = output.contiguous();
    const double* const values = flat.data<double>();
    for (std::int64_t i = 0; i < flat.numel(); ++i) total += weight_of(i) * values[i];
  }
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

// Weights for the elements of an output.
Tensor weights_for(const Shape& shape) {
  Tensor weights = empty(shape, {.dtype = DType::kF64});
  for (std::int64_t i = 0; i < weights.numel(); ++i) weights.data<double>()[i] = weight_of(i);
  return weights;
}

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

// What an input without a gradient means: it was forgotten, or f does not depend on it.
enum class Missing : std::uint8_t { kError, kZero };

double check(std::string_view what, const std::function<std::vector<Tensor>(const Inputs&)>& f,
             const Inputs& inputs, const GradcheckOptions& options, Missing missing) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    DL_CHECK(!inputs[i].requires_grad() || (inputs[i].dtype() == DType::kF64 &&
                                            inputs[i].is_contiguous() && inputs[i].is_leaf()),
             kInvalidArgument, "gradcheck of {}: input {} is no contiguous float64 leaf", what, i);
    inputs[i].zero_grad();
  }
  std::vector<Tensor> outputs;
  std::vector<Tensor> weights;
  for (Tensor& output : f(inputs)) {
    DL_CHECK(output.dtype() == DType::kF64, kDType,
             "gradcheck of {}: the result is {}, not float64", what, name_of(output.dtype()));
    if (missing == Missing::kZero && !output.requires_grad()) continue;
    weights.push_back(weights_for(output.sizes()));
    outputs.push_back(std::move(output));
  }
  backward(outputs, weights);

  const NoGradGuard no_grad;
  double largest = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    Tensor grad = inputs[i].grad();
    if (!grad.defined() && missing == Missing::kZero) grad = zeros_like(inputs[i].detach());
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

}  // namespace

double gradcheck(std::string_view what, const Function& f, const Inputs& inputs,
                 GradcheckOptions options) {
  const auto one = [&f](const Inputs& given) { return std::vector<Tensor>{f(given)}; };
  return check(what, one, inputs, options, Missing::kError);
}

double gradgradcheck(std::string_view what, const Function& f, const Inputs& inputs,
                     GradcheckOptions options) {
  Inputs all = inputs;
  all.push_back(weights_for(f(inputs).sizes()).requires_grad_());
  const auto gradients = [&](const Inputs& given) {
    const EnableGradGuard recorded;
    const Tensor output = f({given.begin(), given.end() - 1});
    std::vector<Tensor> wanted;
    for (const Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    std::vector<Tensor> found = autograd::grad(
        {output}, wanted,
        {.grad_outputs = {given.back()}, .create_graph = true, .allow_unused = true});
    std::erase_if(found, [](const Tensor& each) { return !each.defined(); });
    return found;
  };
  return check(what, gradients, all, options, Missing::kZero);
}

}  // namespace dl
