#include "core/ops/reduce/reduce_gradient.h"

#include <cmath>

#include "core/ops/common.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

constexpr ReduceOptions kKeepDim{.keepdim = true};

// Computed in f32 for f16 and bf16: a divisor that counts elements may overflow f16.
Tensor divided(const Tensor& gradient, const Tensor& divisor) {
  if (size_of(gradient.dtype()) > 2) return div(gradient, divisor.to(gradient.dtype()));
  return div(gradient.to(DType::kF32), divisor.to(DType::kF32)).to(gradient.dtype());
}

// In a pass with create_graph: 1 in the place of 0, so that the gradient of what masked() leaves
// out is no product of 0 and infinity.
Tensor without_zeros(const Tensor& x) {
  return is_grad_enabled() ? where(eq(x, 0.0), 1.0, x) : x;
}

// 0 if `divisor` is 0.
Tensor safe_quotient(const Tensor& a, const Tensor& divisor) {
  return masked(div(a, without_zeros(divisor)), ne(divisor, 0.0));
}

// The gradient if `winners` is true, divided by their number. If the result is NaN, no element
// equals it, and this gives 0 / 0 as in PyTorch.
Tensor shared(const ReductionGradient& at, const Tensor& winners) {
  const Tensor count = sum(winners, at.dims, kKeepDim).to(at.grad.dtype());
  return div(masked(at.grad.expand(at.shape), winners), count);
}

// Each element gets the product of all others.
Tensor of_product(const ReductionGradient& at) {
  const Tensor& x = at.input;
  const Tensor zero = eq(x, 0.0);
  if (!any(zero).item<bool>()) return div(mul(at.grad, at.output), x);
  DL_CHECK(!is_grad_enabled(), kNotImplemented,
           "create_graph: gradients of gradients of prod are not recorded if an element is 0");
  const Tensor filled = add(x, zero.to(x.dtype()));  // replaces 0 by 1
  const Tensor without = mul(at.grad, prod(filled, at.dims, kKeepDim));
  const Tensor zeros_there = sum(zero, at.dims, kKeepDim);
  const Tensor none = minimum(ne(x, 0.0), eq(zeros_there, 0));
  const Tensor only = minimum(zero, eq(zeros_there, 1));
  return add(masked(div(without, filled), none), masked(without.expand(at.shape), only));
}

// True if the mean is many deviations away from 0, so that its rounding error affects distances
// from it.
bool is_far(const Tensor& mean, const Tensor& output, bool is_deviation) {
  if (mean.is_cuda()) return true;
  return visit_floating(mean.dtype(), "var", [&]<typename T>() {
    const T* const means = mean.data<T>();
    const T* const outputs = output.data<T>();
    for (std::int64_t i = 0; i < mean.numel(); ++i) {
      const auto m = static_cast<double>(static_cast<OpMath<T>>(means[i]));
      const auto out = static_cast<double>(static_cast<OpMath<T>>(outputs[i]));
      const double variance = is_deviation ? out * out : out;
      if (!(std::isfinite(variance) && m * m <= 256 * variance)) return true;
    }
    return false;
  });
}

Tensor of_variance(const ReductionGradient& at, const Tensor& grad) {
  Tensor near = mean(at.input, at.dims, kKeepDim);
  const bool far = is_far(near, at.output, at.fn == ReduceFn::kStd);
  if (far && !all(isfinite(near)).item<bool>()) {  // the sum may have overflowed
    near = mean(at.input.to(DType::kF64), at.dims, kKeepDim).to(near.dtype());
  }
  Tensor distance = sub(at.input, near);
  if (far) {  // the mean of the distances is the rounding error of the mean
    const Tensor rest = mean(distance, at.dims, kKeepDim);
    distance.sub_(masked(rest, isfinite(rest)));
  }
  return distance.mul_(mul(grad, 2.0 / (at.count - at.p)));
}

Tensor of_norm(const ReductionGradient& at) {
  const Tensor& x = at.input;
  // Below p = 1 PyTorch multiplies, which gives NaN for an infinite norm.
  const Tensor scale = at.p < 1 ? mul(at.grad, pow(at.output, 1 - at.p))
                                : safe_quotient(at.grad, pow(at.output, at.p - 1));
  return mul(masked(mul(sign(x), pow(without_zeros(abs(x)), at.p - 1)), ne(x, 0.0)), scale);
}

Tensor of_extreme_norm(const ReductionGradient& at) {
  const Tensor size = abs(at.input);
  const Tensor winners = maximum(eq(size, at.output), ne(size, size));
  return mul(sign(at.input), shared(at, winners));
}

Tensor computed(const ReductionGradient& at) {
  switch (at.fn) {
    case ReduceFn::kSum:
      return at.grad.expand(at.shape);
    case ReduceFn::kNansum:
      return masked(at.grad.expand(at.shape), eq(at.input, at.input));
    case ReduceFn::kMean:
      return div(at.grad, at.count).expand(at.shape);
    case ReduceFn::kProd:
      return of_product(at);
    case ReduceFn::kAmax:
    case ReduceFn::kAmin:
      return shared(at, eq(at.input, at.output));
    case ReduceFn::kLogsumexp:
      return mul(at.grad, exp(sub(at.input, at.output)));
    case ReduceFn::kVar:
      return of_variance(at, at.grad);
    case ReduceFn::kStd:
      return of_variance(at, safe_quotient(at.grad, mul(at.output, 2.0)));
    case ReduceFn::kNorm2:
      return mul(at.input, safe_quotient(at.grad, at.output));
    case ReduceFn::kNorm1:
      return mul(sign(at.input), at.grad);
    case ReduceFn::kNorm0:
      return zeros_like(at.input);
    case ReduceFn::kNormLargest:
    case ReduceFn::kNormSmallest:
      return of_extreme_norm(at);
    case ReduceFn::kNormP:
      return of_norm(at);
    case ReduceFn::kAny:
    case ReduceFn::kAll:
    case ReduceFn::kCountNonzero:
      break;
  }
  throw_error(ErrorKind::kInternal, "{}: no gradient", facts(at.fn).name);
}

}  // namespace

bool gradient_reads_input(ReduceFn fn) noexcept {
  return fn != ReduceFn::kSum && fn != ReduceFn::kMean;
}

bool saves_output(ReduceFn fn) noexcept {
  return gradient_reads_input(fn) && fn != ReduceFn::kNansum;
}

Tensor gradient_of(const ReductionGradient& at) {
  if (!gradient_reads_input(at.fn) || size_of(at.grad.dtype()) > 2) return computed(at);
  // Several steps: compute in float32 and round once.
  ReductionGradient wide = at;
  wide.grad = at.grad.to(DType::kF32);
  wide.input = at.input.to(DType::kF32);
  if (at.output.defined()) wide.output = at.output.to(DType::kF32);
  return computed(wide).to(at.grad.dtype());
}

Tensor shared_among_equals(const Tensor& gradient, const Tensor& input, const Tensor& chosen) {
  const bool is_nan = ne(chosen, chosen).item<bool>();
  const Tensor winners = is_nan ? ne(input, input) : eq(input, chosen);
  return masked(divided(gradient, sum(winners)).expand(input.sizes()), winners);
}

}  // namespace dl
