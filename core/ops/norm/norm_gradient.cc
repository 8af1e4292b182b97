#include "core/ops/norm/norm_gradient.h"

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"

namespace dl {

NormGradients norm_gradients(const Normalised& how, const Tensor& x, const Tensor& grad,
                             const Tensor& weight) {
  const auto averaged = [&](const Tensor& each) { return mean(each, how.over, {.keepdim = true}); };
  const bool is_constant = how.rstd.defined();
  const Tensor distance = is_constant ? sub(x, how.mean) : how.centered ? sub(x, averaged(x)) : x;
  const Tensor rstd = is_constant ? how.rstd : rsqrt(add(averaged(square(distance)), how.eps));
  const Tensor normal = mul(distance, rstd);
  Tensor to_normal = weight.defined() ? mul(grad, weight) : grad;
  NormGradients result;
  result.weight = sum(mul(grad, normal), how.shared).reshape({-1});
  result.bias = sum(grad, how.shared).reshape({-1});
  if (!is_constant) {
    const Tensor along = mul(normal, averaged(mul(to_normal, normal)));
    if (how.centered) to_normal = sub(to_normal, averaged(to_normal));
    to_normal = sub(to_normal, along);
  }
  result.input = mul(to_normal, rstd);
  return result;
}

}  // namespace dl
