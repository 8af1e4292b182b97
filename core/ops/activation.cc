#include "core/ops/activation.h"

namespace dl {

Tensor gelu(const Tensor& input, GeluForm form) {
  return unary(form == GeluForm::kTanh ? UnaryFn::kGeluTanh : UnaryFn::kGelu, input);
}

Tensor leaky_relu(const Tensor& input, double negative_slope) {
  return unary(UnaryFn::kLeakyRelu, input, {.a = negative_slope});
}

Tensor elu(const Tensor& input, double alpha) {
  return unary(UnaryFn::kElu, input, {.a = alpha});
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
