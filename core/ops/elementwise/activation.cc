#include "core/ops/elementwise/activation.h"

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"

namespace dl {
namespace {

// Saved: the input, and the sigmoid of its second half.
struct GluBackward final : Node {
  std::string_view name() const noexcept override { return "glu"; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    const Tensor values = saved(0).narrow(dim, 0, grad.size(dim));
    // Compute the slope first: a large value times the gradient may overflow.
    const Tensor slope = empty_like(grad);
    call<Op::kUnaryBackward>(grad.device(), UnaryFn::kSigmoid, grad, saved(1), Parameters{}, slope);
    context.give(0, cat({mul(grad, saved(1)), mul(slope, values)}, dim));
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    const std::int64_t half = grad.size(dim);
    const Tensor values = saved(0).narrow(dim, 0, half);
    const Tensor gates = sigmoid(saved(0).narrow(dim, half, half));
    const Tensor slope = unary_gradient(UnaryFn::kSigmoid, grad, gates, {});
    context.give(0, cat({mul(grad, gates), mul(slope, values)}, dim));
  }
  std::int64_t dim = 0;
};

}  // namespace

Tensor gelu(const Tensor& input, GeluForm form) {
  return unary(form == GeluForm::kTanh ? UnaryFn::kGeluTanh : UnaryFn::kGelu, input);
}

Tensor leaky_relu(const Tensor& input, double negative_slope) {
  return unary(UnaryFn::kLeakyRelu, input, {.a = negative_slope});
}

Tensor elu(const Tensor& input, double alpha) {
  return unary(UnaryFn::kElu, input, {.a = alpha});
}

Tensor celu(const Tensor& input, double alpha) {
  DL_CHECK(alpha != 0, kInvalidArgument, "celu: alpha is 0, by which x is divided");
  return unary(UnaryFn::kCelu, input, {.a = alpha});
}

Tensor softshrink(const Tensor& input, double lambd) {
  DL_CHECK(lambd >= 0, kInvalidArgument, "softshrink: lambd is {}, wanted at least 0", lambd);
  return unary(UnaryFn::kSoftshrink, input, {.a = lambd});
}

Tensor hardshrink(const Tensor& input, double lambd) {
  DL_CHECK(lambd >= 0, kInvalidArgument, "hardshrink: lambd is {}, wanted at least 0", lambd);
  return unary(UnaryFn::kHardshrink, input, {.a = lambd});
}

Tensor threshold(const Tensor& input, double threshold, double value) {
  return unary(UnaryFn::kThreshold, input, {.a = threshold, .b = value});
}

Tensor prelu(const Tensor& input, const Tensor& weight) {
  check_defined(input, "prelu", "the input");
  check_defined(weight, "prelu", "the weight");
  const std::int64_t channels = input.dim() > 1 ? input.size(1) : 1;
  DL_CHECK(weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels), kShape,
           "prelu: the weight has shape {}, wanted 1 or {} elements for an input of shape {}",
           weight.sizes().str(), channels, input.sizes().str());
  Shape shape(input.sizes().size(), 1);
  if (shape.size() > 1) shape[1] = weight.numel();
  // The weight's gradient must not multiply 0 by an infinite input.
  const Tensor positive = gt(input, 0.0);
  const Tensor rest = mul(weight.reshape(shape), where(positive, 0.0, input));
  return detail::finish_composed(where(positive, input, rest), input, "PreluKernelBackward0");
}

Tensor glu(const Tensor& input, std::int64_t dim) {
  check_defined(input, "glu", "the input");
  DL_CHECK(input.dim() > 0 && input.size(dim) % 2 == 0, kShape,
           "glu: the input has shape {}, wanted an even size in dimension {}", input.sizes().str(),
           dim);
  const std::int64_t half = input.size(dim) / 2;
  const Tensor values = input.narrow(dim, 0, half);
  const Tensor gates = sigmoid(input.narrow(dim, half, half).detach());
  Tensor result = mul(values.detach(), gates);
  if (auto* node = record<GluBackward>(result, input)) {
    node->dim = dim;
    node->save(input);
    node->save_constant(gates);
  }
  return result;
}

Tensor softplus(const Tensor& input, double beta, double threshold) {
  return unary(UnaryFn::kSoftplus, input, {.a = beta, .b = threshold});
}

Tensor hardtanh(const Tensor& input, double min_val, double max_val) {
  DL_CHECK(min_val < max_val, kInvalidArgument,
           "hardtanh: min_val is {} and max_val {}, wanted a smaller min_val", min_val, max_val);
  return unary(UnaryFn::kHardtanh, input, {.a = min_val, .b = max_val});
}

}  // namespace dl
