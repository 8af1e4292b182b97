// Dual: a tensor beside its derivative, as a number type of the formulas in core/kernels/formulas.
// A formula of a first derivative that is computed with it gives the second derivative as well.
//
// select() chooses values and derivatives alike. So a branch that is not taken cannot make NaN, as
// it does in gradients of where(): 0 times an infinite slope. Everything is made of recorded
// operations, so the results have further derivatives if recording is on.
#pragma once

#include <functional>
#include <utility>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"

namespace dl::duals {

// A tensor or, if the tensor is undefined, a constant. The constant 0 is also that of a derivative
// that is 0 everywhere.
struct Part {
  Tensor tensor{};
  double constant = 0;

  bool is_constant() const noexcept { return !tensor.defined(); }
  bool is_zero() const noexcept { return is_constant() && constant == 0; }
};

inline Part part(double constant) {
  return {.constant = constant};
}
inline Part part(Tensor tensor) {
  return {.tensor = std::move(tensor)};
}

inline Part operator-(const Part& a) {
  return a.is_constant() ? part(-a.constant) : part(neg(a.tensor));
}
inline Part operator+(const Part& a, const Part& b) {
  if (a.is_zero()) return b;
  if (b.is_zero()) return a;
  if (a.is_constant()) {
    return b.is_constant() ? part(a.constant + b.constant) : part(add(b.tensor, a.constant));
  }
  return part(b.is_constant() ? add(a.tensor, b.constant) : add(a.tensor, b.tensor));
}
inline Part operator-(const Part& a, const Part& b) {
  if (b.is_zero()) return a;
  if (a.is_zero()) return -b;
  if (a.is_constant()) {
    return b.is_constant() ? part(a.constant - b.constant) : part(a.constant - b.tensor);
  }
  return part(b.is_constant() ? sub(a.tensor, b.constant) : sub(a.tensor, b.tensor));
}
inline Part operator*(const Part& a, const Part& b) {
  if (a.is_zero() || b.is_zero()) return {};
  if (a.is_constant()) {
    if (a.constant == 1) return b;
    return b.is_constant() ? part(a.constant * b.constant) : part(mul(b.tensor, a.constant));
  }
  if (b.is_constant()) return b.constant == 1 ? a : part(mul(a.tensor, b.constant));
  return part(mul(a.tensor, b.tensor));
}
inline Part operator/(const Part& a, const Part& b) {
  if (a.is_zero()) return {};
  if (b.is_constant()) {
    return a.is_constant() ? part(a.constant / b.constant) : part(div(a.tensor, b.constant));
  }
  return part(a.is_constant() ? a.constant / b.tensor : div(a.tensor, b.tensor));
}

// A condition: bool for each element, or for all of them.
struct Mask {
  Tensor tensor{};
  bool constant = false;
  DType dtype = DType::kF32;  // of the compared numbers
};

// compare(tensor, tensor), and the other forms with a constant.
template <typename OfTensors, typename WithNumber, typename OfNumber, typename OfNumbers>
Mask compared(const Part& a, const Part& b, const OfTensors& of_tensors,
              const WithNumber& with_number, const OfNumber& of_number, const OfNumbers& numbers) {
  if (a.is_constant() && b.is_constant()) return {.constant = numbers(a.constant, b.constant)};
  const DType dtype = a.is_constant() ? b.tensor.dtype() : a.tensor.dtype();
  const NoGradGuard not_recorded;
  if (a.is_constant()) return {.tensor = of_number(b.tensor, a.constant), .dtype = dtype};
  if (b.is_constant()) return {.tensor = with_number(a.tensor, b.constant), .dtype = dtype};
  return {.tensor = of_tensors(a.tensor, b.tensor), .dtype = dtype};
}

inline Part chosen(const Mask& mask, const Part& yes, const Part& no) {
  if (!mask.tensor.defined()) return mask.constant ? yes : no;
  if (yes.is_constant() && no.is_constant()) {
    if (yes.constant == no.constant) return yes;
    return part(
        where(mask.tensor, scalar_tensor(yes.constant, mask.dtype, "create_graph"), no.constant));
  }
  if (yes.is_constant()) return part(where(mask.tensor, yes.constant, no.tensor));
  return part(no.is_constant() ? where(mask.tensor, yes.tensor, no.constant)
                               : where(mask.tensor, yes.tensor, no.tensor));
}

struct Dual {
  Part value;
  Part slope;

  Dual(Part value_of, Part slope_of) : value(std::move(value_of)), slope(std::move(slope_of)) {}
  explicit Dual(double constant) : value(part(constant)) {}
};

inline Dual operator-(const Dual& a) {
  return {-a.value, -a.slope};
}
inline Dual operator+(const Dual& a, const Dual& b) {
  return {a.value + b.value, a.slope + b.slope};
}
inline Dual operator-(const Dual& a, const Dual& b) {
  return {a.value - b.value, a.slope - b.slope};
}
inline Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
// The derivative of what is constant, or does not matter, once an exponential in it overflows: of
// 1 / (1 + e^x), and of log(1 + e^x) in a tanh.
inline Part zero_beyond(const Part& slope, const Part& exponential) {
  if (slope.is_constant() || exponential.is_constant()) return slope;
  return part(where(isinf(exponential.tensor.detach()), 0.0, slope.tensor));
}

inline Dual operator/(const Dual& a, const Dual& b) {
  const Part quotient = a.value / b.value;
  const Part slope = (a.slope - quotient * b.slope) / b.value;
  return {quotient, b.slope.is_zero() ? slope : zero_beyond(slope, b.value)};
}

inline Mask operator<(const Dual& a, const Dual& b) {
  return compared(
      a.value, b.value, [](const Tensor& x, const Tensor& y) { return lt(x, y); },
      [](const Tensor& x, double y) { return lt(x, y); },
      [](const Tensor& y, double x) { return gt(y, x); }, std::less<double>());
}
inline Mask operator<=(const Dual& a, const Dual& b) {
  return compared(
      a.value, b.value, [](const Tensor& x, const Tensor& y) { return le(x, y); },
      [](const Tensor& x, double y) { return le(x, y); },
      [](const Tensor& y, double x) { return ge(y, x); }, std::less_equal<double>());
}
inline Mask operator==(const Dual& a, const Dual& b) {
  return compared(
      a.value, b.value, [](const Tensor& x, const Tensor& y) { return eq(x, y); },
      [](const Tensor& x, double y) { return eq(x, y); },
      [](const Tensor& y, double x) { return eq(y, x); }, std::equal_to<double>());
}
inline Dual select(const Mask& mask, const Dual& yes, const Dual& no) {
  return {chosen(mask, yes.value, no.value), chosen(mask, yes.slope, no.slope)};
}

// f(a) of a tensor, with its derivative slope(a, f(a)). Formulas apply functions to tensors only.
template <typename F, typename Slope>
Dual applied(const Dual& a, const F& f, const Slope& slope) {
  const Part value = part(f(a.value.tensor));
  return {value, a.slope.is_zero() ? Part() : a.slope * slope(a.value, value)};
}

inline Dual exp_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return exp(x); }, [](const Part&, const Part& y) { return y; });
}
inline Dual log_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return log(x); },
      [](const Part& x, const Part&) { return part(1) / x; });
}
inline Dual log1p_of(const Dual& a) {
  return {part(log1p(a.value.tensor)), zero_beyond(a.slope / (a.value + part(1)), a.value)};
}
inline Dual sqrt_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return sqrt(x); },
      [](const Part&, const Part& y) { return part(0.5) / y; });
}
inline Dual tanh_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return tanh(x); },
      [](const Part&, const Part& y) { return part(1) - y * y; });
}
inline Dual sin_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return sin(x); },
      [](const Part& x, const Part&) { return part(cos(x.tensor)); });
}
inline Dual cos_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return cos(x); },
      [](const Part& x, const Part&) { return part(neg(sin(x.tensor))); });
}
inline Dual sinh_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return sinh(x); },
      [](const Part& x, const Part&) { return part(cosh(x.tensor)); });
}
inline Dual cosh_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return cosh(x); },
      [](const Part& x, const Part&) { return part(sinh(x.tensor)); });
}
inline Dual abs_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return abs(x); },
      [](const Part& x, const Part&) { return part(sign(x.tensor)); });
}
// The normal distribution's cdf.
inline Dual normal_cdf_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return mul(erfc(mul(x, -0.7071067811865475244)), 0.5); },
      [](const Part& x, const Part&) {
        return part(mul(exp(mul(square(x.tensor), -0.5)), 0.3989422804014326779));
      });
}
// The exponent is a constant.
inline Dual pow_of(const Dual& a, const Dual& exponent) {
  const double e = exponent.value.constant;
  return applied(
      a, [e](const Tensor& x) { return pow(x, e); },
      [e](const Part& x, const Part&) {
        return e == 0 ? Part() : part(mul(pow(x.tensor, e - 1), e));
      });
}
inline Dual digamma_of(const Dual& a) {
  return applied(
      a, [](const Tensor& x) { return digamma(x); },
      [](const Part& x, const Part&) {
        return part(unary_gradient(UnaryFn::kDigamma, ones_like(x.tensor), x.tensor, {}));
      });
}
inline Dual trigamma_of(const Dual& a) {
  DL_CHECK(a.slope.is_zero(), kNotImplemented,
           "create_graph: gradients of gradients of digamma are not recorded");
  return a;
}

}  // namespace dl::duals
