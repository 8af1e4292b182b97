#include "nn/utils/clip_grad.h"

#include <cmath>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/error.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"

namespace dl::nn::utils {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters, const char* name) {
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    DL_CHECK(parameters[i].defined(), kInvalidArgument, "{}: parameter {} is undefined", name, i);
    if (const FirstError* const error = grad_error(parameters[i])) error->check();
    Tensor gradient = parameters[i].grad();
    if (!gradient.defined()) continue;
    DL_CHECK(gradients.empty() || gradient.device() == gradients.front().device(), kInvalidArgument,
             "{}: the gradient of parameter {} is on {}, others on {}", name, i,
             gradient.device().str(), gradients.front().device().str());
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

Tensor absolute(const Tensor& x) {
  return maximum(x, -x);
}

Tensor total_norm(const std::vector<Tensor>& gradients, double norm_type) {
  if (gradients.empty()) return zeros({});
  Tensor total;
  for (const Tensor& given : gradients) {
    // In float32 if it is narrower, because squares of float16 numbers overflow.
    const Tensor gradient = given.dtype() == DType::kF64 ? given : given.to(DType::kF32);
    Tensor part;
    if (std::isinf(norm_type)) {
      part = gradient.numel() == 0
                 ? zeros({}, {.dtype = gradient.dtype(), .device = gradient.device()})
                 : max(absolute(gradient));
      total = total.defined() ? maximum(total, part) : part;
      continue;
    }
    part = sum(norm_type == 2 ? gradient * gradient : pow(absolute(gradient), norm_type));
    total = total.defined() ? total + part : part;
  }
  if (std::isinf(norm_type)) return total;
  return norm_type == 2 ? sqrt(total) : pow(total, 1 / norm_type);
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       ClipGradNormOptions options) {
  constexpr const char* kName = "clip_grad_norm_";
  DL_CHECK(max_norm >= 0, kInvalidArgument, "{}: max_norm is {}, wanted at least 0", kName,
           max_norm);
  DL_CHECK(options.norm_type > 0, kInvalidArgument, "{}: norm_type is {}, wanted more than 0",
           kName, options.norm_type);
  const NoGradGuard no_grad;
  const std::vector<Tensor> gradients = gradients_of(parameters, kName);
  const Tensor norm = total_norm(gradients, options.norm_type);
  if (options.error_if_nonfinite) {
    const double value = norm.item<double>();
    DL_CHECK(std::isfinite(value), kInvalidArgument,
             "{}: the norm of all gradients is {}, so that they cannot be clipped", kName, value);
  }
  // A tensor and not a number, so that nothing waits for a GPU.
  const Tensor factor =
      minimum(max_norm / (norm + 1e-6), ones({}, {.dtype = norm.dtype(), .device = norm.device()}));
  const bool may_look = factor.device().type == DeviceType::kCPU && !tape::Recorder::current();
  if (may_look && factor.item<double>() == 1) return norm;
  for (Tensor gradient : gradients) gradient.mul_(factor);
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  constexpr const char* kName = "clip_grad_value_";
  DL_CHECK(clip_value >= 0, kInvalidArgument, "{}: clip_value is {}, wanted at least 0", kName,
           clip_value);
  const NoGradGuard no_grad;
  for (Tensor gradient : gradients_of(parameters, kName)) {
    const Tensor bound =
        full({}, clip_value, {.dtype = gradient.dtype(), .device = gradient.device()});
    gradient.copy_(minimum(maximum(gradient, -bound), bound));
  }
}

}  // namespace dl::nn::utils
