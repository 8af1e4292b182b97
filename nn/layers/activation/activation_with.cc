#include "nn/layers/activation/activation_with.h"

#include <algorithm>

#include "core/ops/elementwise/activation.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "nn/layers/check_input.h"
#include "nn/layers/repr.h"

namespace dl::nn {
namespace {

// Applies the row's function to the input, optionally in place.
Tensor run_row(kernels::UnaryFn fn, const Tensor& input, const kernels::Parameters& parameters,
               bool inplace) {
  if (!inplace) return unary(fn, input, parameters);
  Tensor same = input;
  return unary_(fn, same, parameters);
}

const char* inplace_text(bool inplace) {
  return inplace ? ", inplace=True" : "";
}

}  // namespace

Tensor LeakyReLU::forward(const Tensor& input) {
  check_not_moved("a call");
  return run_row(kernels::UnaryFn::kLeakyRelu, input, {.a = options.negative_slope},
                 options.inplace);
}

std::string LeakyReLU::extra_repr() const {
  return "negative_slope=" + python_float(options.negative_slope) + inplace_text(options.inplace);
}

Tensor ELU::forward(const Tensor& input) {
  check_not_moved("a call");
  return run_row(kernels::UnaryFn::kElu, input, {.a = options.alpha}, options.inplace);
}

std::string ELU::extra_repr() const {
  return "alpha=" + python_float(options.alpha) + inplace_text(options.inplace);
}

CELU::CELU(CELUOptions given) : options(given) {
  DL_CHECK(options.alpha != 0, kInvalidArgument, "CELU: alpha is 0, by which x is divided");
}

Tensor CELU::forward(const Tensor& input) {
  check_not_moved("a call");
  return run_row(kernels::UnaryFn::kCelu, input, {.a = options.alpha}, options.inplace);
}

std::string CELU::extra_repr() const {
  return "alpha=" + python_float(options.alpha) + inplace_text(options.inplace);
}

Softshrink::Softshrink(double given) : lambd(given) {
  DL_CHECK(lambd >= 0, kInvalidArgument, "Softshrink: lambd is {}, wanted at least 0", lambd);
}

Tensor Softshrink::forward(const Tensor& input) {
  check_not_moved("a call");
  return softshrink(input, lambd);
}

std::string Softshrink::extra_repr() const {
  return python_float(lambd);
}

Hardshrink::Hardshrink(double given) : lambd(given) {
  DL_CHECK(lambd >= 0, kInvalidArgument, "Hardshrink: lambd is {}, wanted at least 0", lambd);
}

Tensor Hardshrink::forward(const Tensor& input) {
  check_not_moved("a call");
  return hardshrink(input, lambd);
}

std::string Hardshrink::extra_repr() const {
  return python_float(lambd);
}

Tensor Threshold::forward(const Tensor& input) {
  check_not_moved("a call");
  return run_row(kernels::UnaryFn::kThreshold, input, {.a = threshold, .b = value},
                 options.inplace);
}

std::string Threshold::extra_repr() const {
  return "threshold=" + python_float(threshold) + ", value=" + python_float(value) +
         inplace_text(options.inplace);
}

PReLU::PReLU(PReLUOptions given)
    : options(given),
      weight(register_parameter("weight", full({std::max<std::int64_t>(given.num_parameters, 0)},
                                               given.init, {.dtype = given.dtype}))) {
  DL_CHECK(options.num_parameters > 0, kInvalidArgument,
           "PReLU: num_parameters is {}, wanted at least 1", options.num_parameters);
}

Tensor PReLU::forward(const Tensor& input) {
  check_not_moved("a call");
  if (options.num_parameters > 1) {
    check_size("PReLU", "num_parameters", options.num_parameters, input, 1, "channels");
  }
  return prelu(input, weight);
}

std::string PReLU::extra_repr() const {
  return fmt::format("num_parameters={}", options.num_parameters);
}

Tensor GLU::forward(const Tensor& input) {
  check_not_moved("a call");
  return glu(input, dim);
}

std::string GLU::extra_repr() const {
  return fmt::format("dim={}", dim);
}

Tensor Softplus::forward(const Tensor& input) {
  check_not_moved("a call");
  return softplus(input, options.beta, options.threshold);
}

std::string Softplus::extra_repr() const {
  return "beta=" + python_float(options.beta) + ", threshold=" + python_float(options.threshold);
}

Hardtanh::Hardtanh(HardtanhOptions given) : options(given) {
  DL_CHECK(options.min_val < options.max_val, kInvalidArgument,
           "Hardtanh: min_val is {} and max_val {}, wanted a smaller min_val", options.min_val,
           options.max_val);
}

Tensor Hardtanh::forward(const Tensor& input) {
  check_not_moved("a call");
  return run_row(kernels::UnaryFn::kHardtanh, input, {.a = options.min_val, .b = options.max_val},
                 options.inplace);
}

std::string Hardtanh::extra_repr() const {
  return "min_val=" + python_float(options.min_val) + ", max_val=" + python_float(options.max_val) +
         inplace_text(options.inplace);
}

Tensor Softmax::forward(const Tensor& input) {
  check_not_moved("a call");
  return softmax(input, dim);
}

std::string Softmax::extra_repr() const {
  return fmt::format("dim={}", dim);
}

Tensor Softmin::forward(const Tensor& input) {
  check_not_moved("a call");
  return softmax(neg(input), dim);
}

std::string Softmin::extra_repr() const {
  return fmt::format("dim={}", dim);
}

Tensor LogSoftmax::forward(const Tensor& input) {
  check_not_moved("a call");
  return log_softmax(input, dim);
}

std::string LogSoftmax::extra_repr() const {
  return fmt::format("dim={}", dim);
}

}  // namespace dl::nn
