// Lanes: a vector of float, as the formulas see a number, and the formulas for it. LanesOf<double>
// has the arithmetic alone. Included once for each of Highway's targets.
//
// Highway's functions are defined for finite arguments in a range; the functions here are defined
// for all and give what std:: gives for infinities, NaN and zeros, with errors of at most 4 units
// in the last place.
#if defined(DL_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DL_LANES_INL_H_
#undef DL_LANES_INL_H_
#else
#define DL_LANES_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/kernels/cpu/elementwise/rows.h"
#include "core/kernels/numbers.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
struct LanesOf {
  using D = hn::ScalableTag<T>;
  HWY_INLINE LanesOf() : v(hn::Zero(D())) {}
  HWY_INLINE explicit LanesOf(hn::Vec<D> x) : v(x) {}
  template <typename X>
    requires std::is_arithmetic_v<X>
  HWY_INLINE explicit LanesOf(X x) : v(hn::Set(D(), static_cast<T>(x))) {}
  hn::Vec<D> v;
};
template <typename T>
struct LaneMaskOf {
  hn::Mask<hn::ScalableTag<T>> m;
};
using Lanes = LanesOf<float>;
using LaneMask = LaneMaskOf<float>;

template <typename T>
HWY_INLINE LanesOf<T> operator+(LanesOf<T> a, LanesOf<T> b) {
  return LanesOf<T>(hn::Add(a.v, b.v));
}
template <typename T>
HWY_INLINE LanesOf<T> operator-(LanesOf<T> a, LanesOf<T> b) {
  return LanesOf<T>(hn::Sub(a.v, b.v));
}
template <typename T>
HWY_INLINE LanesOf<T> operator*(LanesOf<T> a, LanesOf<T> b) {
  return LanesOf<T>(hn::Mul(a.v, b.v));
}
template <typename T>
HWY_INLINE LanesOf<T> operator/(LanesOf<T> a, LanesOf<T> b) {
  return LanesOf<T>(hn::Div(a.v, b.v));
}
template <typename T>
HWY_INLINE LanesOf<T> operator-(LanesOf<T> a) {
  return LanesOf<T>(hn::Neg(a.v));
}
template <typename T>
HWY_INLINE LanesOf<T> mul_add(LanesOf<T> a, LanesOf<T> b, LanesOf<T> c) {
  return LanesOf<T>(hn::MulAdd(a.v, b.v, c.v));
}
template <typename T>
HWY_INLINE LaneMaskOf<T> operator<(LanesOf<T> a, LanesOf<T> b) {
  return {hn::Lt(a.v, b.v)};
}
template <typename T>
HWY_INLINE LaneMaskOf<T> operator<=(LanesOf<T> a, LanesOf<T> b) {
  return {hn::Le(a.v, b.v)};
}
template <typename T>
HWY_INLINE LaneMaskOf<T> operator==(LanesOf<T> a, LanesOf<T> b) {
  return {hn::Eq(a.v, b.v)};
}
template <typename T>
HWY_INLINE LaneMaskOf<T> operator!=(LanesOf<T> a, LanesOf<T> b) {
  return {hn::Not(hn::Eq(a.v, b.v))};  // true of NaN, which hn::Ne is not
}
template <typename T>
HWY_INLINE LanesOf<T> select(LaneMaskOf<T> condition, LanesOf<T> yes, LanesOf<T> no) {
  return LanesOf<T>(hn::IfThenElse(condition.m, yes.v, no.v));
}
template <typename T>
HWY_INLINE LanesOf<T> sqrt_of(LanesOf<T> x) {
  return LanesOf<T>(hn::Sqrt(x.v));
}
HWY_INLINE Lanes keep_nan(Lanes x, Lanes y) {
  return select(x != x, x, y);
}

// function(x[i], y[i]) one lane after the other, for what has no vector form.
template <typename F>
HWY_INLINE Lanes lane_by_lane(F function, Lanes x, Lanes y) {
  const Lanes::D d;
  HWY_ALIGN float a[hn::MaxLanes(d)];
  HWY_ALIGN float b[hn::MaxLanes(d)];
  hn::Store(x.v, d, a);
  hn::Store(y.v, d, b);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) a[i] = function(a[i], b[i]);
  return Lanes(hn::Load(d, a));
}

// e^x for x from -87.3 to 88: results that are normal numbers. The polynomial is that of Cephes'
// expf.
HWY_INLINE Lanes exp_normal(Lanes x) {
  const Lanes::D d;
  const hn::RebindToSigned<Lanes::D> whole;
  const auto set = [&](float c) HWY_ATTR { return hn::Set(d, c); };
  const auto n = hn::Round(hn::Mul(x.v, set(1.44269504f)));
  auto r = hn::NegMulAdd(n, set(0.693359375f), x.v);
  r = hn::NegMulAdd(n, set(-2.12194440e-4f), r);
  auto p = hn::MulAdd(set(1.9875691500e-4f), r, set(1.3981999507e-3f));
  p = hn::MulAdd(p, r, set(8.3334519073e-3f));
  p = hn::MulAdd(p, r, set(4.1665795894e-2f));
  p = hn::MulAdd(p, r, set(1.6666665459e-1f));
  p = hn::MulAdd(p, r, set(5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), set(1.0f));
  const auto exponent = hn::Add(hn::ConvertTo(whole, n), hn::Set(whole, 127));
  return Lanes(hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent))));
}

HWY_INLINE Lanes exp_of(Lanes x) {
  const Lanes::D d;
  return keep_nan(x, Lanes(hn::Exp(d, hn::Min(x.v, hn::Set(d, 104.0f)))));
}

HWY_INLINE Lanes expm1_of(Lanes x) {
  const Lanes::D d;
  const Lanes y(hn::Expm1(d, hn::Min(x.v, hn::Set(d, 104.0f))));
  return select(x == Lanes(0), x, keep_nan(x, y));
}

// y, but for x = 0, infinity, below 0 and NaN what a logarithm gives.
HWY_INLINE Lanes with_ends_of_log(Lanes x, Lanes y, Lanes pole) {
  const Lanes inf(std::numeric_limits<float>::infinity());
  y = select(x == inf, x, y);
  y = select(x == pole, -inf, y);
  return select(x < pole, Lanes(std::numeric_limits<float>::quiet_NaN()), keep_nan(x, y));
}

HWY_INLINE Lanes log_of(Lanes x) {
  return with_ends_of_log(x, Lanes(hn::Log(Lanes::D(), x.v)), Lanes(0));
}

HWY_INLINE Lanes log1p_of(Lanes x) {
  const Lanes y = with_ends_of_log(x, Lanes(hn::Log1p(Lanes::D(), x.v)), Lanes(-1));
  return select(x == Lanes(0), x, y);
}

HWY_INLINE Lanes log2_of(Lanes x) {
  return with_ends_of_log(x, Lanes(hn::Log2(Lanes::D(), x.v)), Lanes(0));
}

HWY_INLINE Lanes log10_of(Lanes x) {
  return with_ends_of_log(x, Lanes(hn::Log10(Lanes::D(), x.v)), Lanes(0));
}

// y, and function(x) in the lanes where x is NaN or too large for Highway's sine and cosine.
template <typename F>
HWY_INLINE Lanes with_large_angles(Lanes x, Lanes y, F function) {
  const Lanes::D d;
  const LaneMask large{hn::Not(hn::Le(hn::Abs(x.v), hn::Set(d, 39000.0f)))};
  if (hn::AllFalse(d, large.m)) return y;
  return select(large, lane_by_lane([=](float a, float) { return function(a); }, x, x), y);
}

HWY_INLINE Lanes sin_of(Lanes x) {
  const Lanes y(hn::Sin(Lanes::D(), x.v));
  return with_large_angles(x, y, [](float a) { return std::sin(a); });
}

HWY_INLINE Lanes cos_of(Lanes x) {
  const Lanes y(hn::Cos(Lanes::D(), x.v));
  return with_large_angles(x, y, [](float a) { return std::cos(a); });
}

HWY_INLINE Lanes abs_of(Lanes x) {
  return Lanes(hn::Abs(x.v));
}
HWY_INLINE Lanes floor_of(Lanes x) {
  return keep_nan(x, Lanes(hn::Floor(x.v)));
}
HWY_INLINE Lanes ceil_of(Lanes x) {
  return keep_nan(x, Lanes(hn::Ceil(x.v)));
}
HWY_INLINE Lanes round_of(Lanes x) {
  return keep_nan(x, Lanes(hn::Round(x.v)));
}
HWY_INLINE Lanes trunc_of(Lanes x) {
  return keep_nan(x, Lanes(hn::Trunc(x.v)));
}

HWY_INLINE Lanes tanh_of(Lanes x) {
  const Lanes::D d;
  const auto bound = hn::Set(d, 20.0f);  // tanh is 1 in float32 from 9.1 on
  const Lanes y(hn::Tanh(d, hn::Min(hn::Max(x.v, hn::Neg(bound)), bound)));
  return select(x == Lanes(0), x, keep_nan(x, y));  // zero keeps its sign
}

// The error function. Below 0.93 a polynomial in x^2, above 1 - e^p(|x|); both are minimax fits of
// 1 unit in the last place.
HWY_INLINE Lanes erf_of(Lanes x) {
  const Lanes::D d;
  const auto set = [&](float c) HWY_ATTR { return hn::Set(d, c); };
  const auto t = hn::Min(hn::Abs(x.v), set(4.0f));  // erf is 1 in float32 from 3.92 on
  const auto s = hn::Mul(t, t);
  auto large = hn::MulAdd(set(-1.72853470e-5f), t, set(3.83197126e-4f));
  const auto odd = hn::MulAdd(set(-3.88396438e-3f), t, set(2.42546219e-2f));
  large = hn::MulAdd(large, s, odd);
  large = hn::MulAdd(large, t, set(-1.06777877e-1f));
  large = hn::MulAdd(large, t, set(-6.34846687e-1f));
  large = hn::MulAdd(large, t, set(-1.28717512e-1f));
  large = hn::MulAdd(large, t, hn::Neg(t));
  large = hn::CopySign(hn::Sub(set(1.0f), exp_normal(Lanes(large)).v), x.v);
  auto small = set(-5.96761703e-4f);
  small = hn::MulAdd(small, s, set(4.99119423e-3f));
  small = hn::MulAdd(small, s, set(-2.67681349e-2f));
  small = hn::MulAdd(small, s, set(1.12819925e-1f));
  small = hn::MulAdd(small, s, set(-3.76125336e-1f));
  small = hn::MulAdd(small, s, set(1.28379166e-1f));
  small = hn::MulAdd(small, x.v, x.v);
  return keep_nan(x, Lanes(hn::IfThenElse(hn::Gt(t, set(0.927734375f)), large, small)));
}

HWY_INLINE Lanes pow_of(Lanes x, Lanes exponent) {
  return lane_by_lane([](float a, float b) { return std::pow(a, b); }, x, exponent);
}
HWY_INLINE Lanes fmod_of(Lanes a, Lanes b) {
  return lane_by_lane([](float x, float y) { return std::fmod(x, y); }, a, b);
}
HWY_INLINE Lanes atan2_of(Lanes a, Lanes b) {
  return lane_by_lane([](float x, float y) { return std::atan2(x, y); }, a, b);
}
HWY_INLINE Lanes hypot_of(Lanes a, Lanes b) {
  return lane_by_lane([](float x, float y) { return std::hypot(x, y); }, a, b);
}
HWY_INLINE Lanes copysign_of(Lanes a, Lanes b) {
  return Lanes(hn::CopySign(a.v, b.v));
}
HWY_INLINE Lanes floor_quotient_of(Lanes a, Lanes b) {
  return lane_by_lane([](float x, float y) { return kernels::floor_quotient_of(x, y); }, a, b);
}
// 1 - erf(x) would have no digit left of a small result.
HWY_INLINE Lanes erfc_of(Lanes x) {
  return lane_by_lane([](float a, float) { return std::erfc(a); }, x, x);
}

HWY_INLINE Lanes tan_of(Lanes x) {
  const Lanes::D d;
  const Lanes y(hn::Div(hn::Sin(d, x.v), hn::Cos(d, x.v)));
  return select(x == Lanes(0), x, with_large_angles(x, y, [](float a) { return std::tan(a); }));
}

// 2^n e^(f log(2)) for x = n + f with a whole n, in two factors, so that a result below the least
// normal number is right too.
HWY_INLINE Lanes exp2_of(Lanes x) {
  const Lanes::D d;
  const hn::RebindToSigned<Lanes::D> whole;
  const auto inside = hn::Min(hn::Max(x.v, hn::Set(d, -160.0f)), hn::Set(d, 130.0f));
  const auto n = hn::Round(inside);
  const auto exponent = hn::ConvertTo(whole, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto power = [&](auto e) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(whole, 127))));
  };
  const auto rest = hn::Exp(d, hn::Mul(hn::Sub(inside, n), hn::Set(d, 0.6931471805599453f)));
  return keep_nan(x, Lanes(hn::Mul(hn::Mul(rest, power(half)), power(hn::Sub(exponent, half)))));
}

// y where |x| is at most 1, else NaN.
HWY_INLINE Lanes inside_one(Lanes x, Lanes y) {
  return select(abs_of(x) <= Lanes(1), y, Lanes(std::numeric_limits<float>::quiet_NaN()));
}
HWY_INLINE Lanes asin_of(Lanes x) {
  return select(x == Lanes(0), x, inside_one(x, Lanes(hn::Asin(Lanes::D(), x.v))));
}
HWY_INLINE Lanes acos_of(Lanes x) {
  return inside_one(x, Lanes(hn::Acos(Lanes::D(), x.v)));
}
HWY_INLINE Lanes atan_of(Lanes x) {
  return select(x == Lanes(0), x, keep_nan(x, Lanes(hn::Atan(Lanes::D(), x.v))));
}

// e^(x / 2) is finite wherever a hyperbolic function of x is.
HWY_INLINE Lanes sinh_of(Lanes x) {
  const Lanes t = abs_of(x);
  const Lanes u = expm1_of(t);
  const Lanes root = exp_of(t * Lanes(0.5));
  const Lanes y =
      select(t < Lanes(20), Lanes(0.5) * (u + u / (u + Lanes(1))), Lanes(0.5) * root * root);
  return select(x == Lanes(0), x, Lanes(hn::CopySign(y.v, x.v)));
}
HWY_INLINE Lanes cosh_of(Lanes x) {
  const Lanes root = exp_of(abs_of(x) * Lanes(0.5));
  const Lanes square = root * root;
  return select(abs_of(x) < Lanes(20), Lanes(0.5) * (square + Lanes(1) / square),
                Lanes(0.5) * root * root);
}

HWY_INLINE Lanes asinh_of(Lanes x) {
  const Lanes inf(std::numeric_limits<float>::infinity());
  const Lanes y(hn::Asinh(Lanes::D(), x.v));
  return select(x == Lanes(0), x, select(abs_of(x) == inf, x, keep_nan(x, y)));
}
HWY_INLINE Lanes acosh_of(Lanes x) {
  const Lanes inf(std::numeric_limits<float>::infinity());
  const Lanes y(hn::Acosh(Lanes::D(), x.v));
  const Lanes nan(std::numeric_limits<float>::quiet_NaN());
  return select(x == inf, x, select(Lanes(1) <= x, y, nan));
}
HWY_INLINE Lanes atanh_of(Lanes x) {
  const Lanes inf(std::numeric_limits<float>::infinity());
  const Lanes ends(hn::CopySign(inf.v, x.v));
  const Lanes y = select(abs_of(x) == Lanes(1), ends, Lanes(hn::Atanh(Lanes::D(), x.v)));
  return select(x == Lanes(0), x, inside_one(x, y));
}

// f(i) for a vector that begins at element i of the operands and of `out`. The tail of a run is
// computed in a padded copy, by the same instructions.
template <std::size_t kOperands, typename F>
HWY_INLINE void for_each_vector(const RowArguments& run, const F& f) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float pad[kOperands][hn::MaxLanes(d)];
  const float* in[kOperands];
  std::int64_t step[kOperands];
  for (std::size_t k = 0; k < kOperands; ++k) {
    in[k] = static_cast<const float*>(run.in[k]);
    step[k] = run.step[k] * lanes;
  }
  auto* out = static_cast<float*>(run.out);
  std::int64_t whole = run.count / lanes;
  const std::int64_t tail = run.count - whole * lanes;
  float* const out_tail = out + whole * lanes;
  for (bool in_tail = false;; in_tail = true) {
    for (std::int64_t i = 0; i < whole; ++i) {
      f(in, out);
      for (std::size_t k = 0; k < kOperands; ++k) in[k] += step[k];
      out += lanes;
    }
    if (in_tail) break;
    if (tail == 0) return;
    for (std::size_t k = 0; k < kOperands; ++k) {
      const std::int64_t count = step[k] == 0 ? lanes : tail;
      hn::Store(hn::Zero(d), d, pad[k]);
      std::memcpy(pad[k], in[k], static_cast<std::size_t>(count) * sizeof(float));
      in[k] = pad[k];
    }
    out = pad[0];
    whole = 1;
  }
  std::memcpy(out_tail, pad[0], static_cast<std::size_t>(tail) * sizeof(float));
}

}  // namespace dl::kernels::cpu::HWY_NAMESPACE

#define DL_INLINE HWY_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::cpu::HWY_NAMESPACE
#include "core/kernels/formulas-inl.h"

namespace dl::kernels::cpu::HWY_NAMESPACE {
HWY_INLINE Given<Lanes> given(const Parameters& parameters) {
  return {Lanes(parameters.a), Lanes(parameters.b)};
}
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
