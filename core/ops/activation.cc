#include "core/ops/activation.h"

namespace dl {

Tensor gelu(const Tensor& input, GeluForm form) {
  return unary(form == GeluForm::kTanh ? UnaryFn::kGeluTanh : UnaryFn::kGelu, input);
}

Tensor pow(const Tensor& base, double exponent) {
  return unary(UnaryFn::kPow, base, {.a = exponent});
}

}  // namespace dl
