// exp, log, tanh, erf and similar functions for vectors of float: minimax polynomials with errors
// of 1 to 1.5 ulp (erf: 2 ulp; the normal cdf: half an ulp of 1), as
// tests/core/ops/exactness_test.cc measures. They are defined for all arguments, as lanes-inl.h
// says. Included once for each of Highway's targets.
#if defined(DL_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DL_EXPONENTIALS_INL_H_
#undef DL_EXPONENTIALS_INL_H_
#else
#define DL_EXPONENTIALS_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "core/kernels/cpu/elementwise/vector/vector_numbers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {

using Floats = hn::Vec<Lanes::D>;

// min(x, bound) and max(x, bound); NaN stays NaN.
HWY_INLINE Floats at_most(float bound, Floats x) {
  const Floats most = hn::Set(Lanes::D(), bound);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Min(most, x);  // for NaN the instruction returns its second operand
#else
  return hn::IfThenElse(hn::Lt(most, x), most, x);
#endif
}
HWY_INLINE Floats at_least(float bound, Floats x) {
  const Floats least = hn::Set(Lanes::D(), bound);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Max(least, x);
#else
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
}

// c[0] + c[1] x + c[2] x^2 + ..., from the last coefficient on.
template <std::size_t kCount>
HWY_INLINE Floats polynomial(Floats x, const float (&c)[kCount]) {
  const Lanes::D d;
  Floats sum = hn::Set(d, c[kCount - 1]);
  for (std::size_t k = kCount - 1; k-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[k]));
  return sum;
}

// 2^n for a whole n from -126 to 127; any number for NaN.
HWY_INLINE Floats normal_power(Floats n) {
  const Lanes::D d;
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  n = hn::IfThenElseZero(hn::Eq(n, n), n);  // the emulation converts as C++ does
#endif
  const hn::RebindToSigned<Lanes::D> whole;
  const auto exponent = hn::Add(hn::ConvertTo(whole, n), hn::Set(whole, 127));
  return hn::BitCast(d, hn::ShiftLeft<23>(exponent));
}

// x 2^n for a whole n from -252 to 254, rounded once.
HWY_INLINE Floats times_power(Floats x, Floats n) {
#if HWY_TARGET == HWY_AVX3
  return Floats{_mm512_scalef_ps(x.raw, n.raw)};
#else
  const Floats half = hn::Floor(hn::Mul(n, hn::Set(Lanes::D(), 0.5F)));
  return hn::Mul(hn::Mul(x, normal_power(half)), normal_power(hn::Sub(n, half)));
#endif
}

// x = n log(2) + rest, and e^rest = 1 + above_one.
struct ReducedExponent {
  Floats n;
  Floats above_one;
};
HWY_INLINE ReducedExponent reduce_exponent(Floats x) {
  constexpr float kTail[] = {0.49999997F, 0.166665435F, 0.0416672006F, 0.00836652052F,
                             0.00138825155F};
  const Lanes::D d;
  const Floats n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504F)));
  Floats r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  return {n, hn::MulAdd(polynomial(r, kTail), hn::Mul(r, r), r)};
}

// e^x for x from -87.3 to 88: all results are normal numbers.
HWY_INLINE Lanes exp_normal(Lanes x) {
  const auto [n, above_one] = reduce_exponent(x.v);
  return Lanes(hn::Mul(hn::Add(above_one, hn::Set(Lanes::D(), 1.0F)), normal_power(n)));
}

HWY_INLINE Lanes exp_of(Lanes x) {
  const Lanes::D d;
  // Beyond these bounds the results are 0 and infinity.
  const auto [n, above_one] = reduce_exponent(at_least(-104.0F, at_most(89.0F, x.v)));
  return Lanes(times_power(hn::Add(above_one, hn::Set(d, 1.0F)), n));
}

// 1 - 2 / (e^2|x| + 1), or below 0.55 a polynomial, with the sign of x.
HWY_INLINE Lanes tanh_of(Lanes x) {
  constexpr float kPower[] = {1.0F,         2.0F,         1.99999976F,  1.33331454F,
                              0.666688025F, 0.267973483F, 0.0885992646F};  // e^2h
  constexpr float kSmall[] = {-0.333333164F, 0.13332586F, -0.0538523085F, 0.0210716724F,
                              -0.00627423171F};
  const Lanes::D d;
  const Floats one = hn::Set(d, 1.0F);
  const Floats t = at_most(10.0F, hn::Abs(x.v));  // tanh is 1 in float32 from 9.02 on
  const Floats n = hn::Round(hn::Mul(t, hn::Set(d, 2.88539008F)));
  Floats h = hn::NegMulAdd(n, hn::Set(d, 0.3466796875F), t);
  h = hn::NegMulAdd(n, hn::Set(d, -1.06097220e-4F), h);
#if HWY_TARGET == HWY_AVX3
  // An estimate of 1 / divisor and one Newton step: a division takes as long as ten such steps.
  const Floats divisor = hn::Add(Floats{_mm512_scalef_ps(polynomial(h, kPower).raw, n.raw)}, one);
  const Floats about{_mm512_rcp14_ps(divisor.raw)};
  const Floats correction = hn::NegMulAdd(divisor, about, hn::Set(d, 2.0F));
  const Floats large = hn::NegMulAdd(hn::Add(about, about), correction, one);
#else
  const Floats divisor = hn::MulAdd(polynomial(h, kPower), normal_power(n), one);
  const Floats large = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), divisor));
#endif
  const Floats s = hn::Mul(t, t);
  const Floats small = hn::MulAdd(polynomial(s, kSmall), hn::Mul(s, t), t);
  const auto is_small = hn::Lt(t, hn::Set(d, 0.55F));
  return Lanes(hn::CopySign(hn::IfThenElse(is_small, small, large), x.v));
}

// y, replaced by the logarithm's special values if x is 0, infinite, negative or NaN.
HWY_INLINE Lanes with_ends_of_log(Lanes x, Lanes y, Lanes pole) {
  const Lanes inf(std::numeric_limits<float>::infinity());
  y = select(x == inf, x, y);
  y = select(x == pole, -inf, y);
  return select(x < pole, Lanes(std::numeric_limits<float>::quiet_NaN()), keep_nan(x, y));
}

// Writes x as (1 + f) 2^e with f from -0.25 to 0.5, and returns log(1 + f) + e log(2).
HWY_INLINE Lanes log_of(Lanes x) {
  constexpr float kTail[] = {-0.5F,         0.333334506F, -0.250000954F,
                             0.199908614F,  -0.16647312F, 0.144783944F,
                             -0.131611943F, 0.104630224F, -0.0450748056F};
  const Lanes::D d;
#if HWY_TARGET == HWY_AVX3
  // These instructions are defined for all numbers: for 0 and infinity e is infinite, and for
  // negative numbers m is NaN.
  const Floats m{_mm512_getmant_ps(x.v.raw, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan)};
  const Floats e = hn::Sub(Floats{_mm512_getexp_ps(x.v.raw)}, Floats{_mm512_getexp_ps(m.raw)});
#else
  const hn::RebindToSigned<Lanes::D> whole;
  const auto is_small = hn::Lt(x.v, hn::Set(d, std::numeric_limits<float>::min()));
  const Floats scaled = hn::IfThenElse(is_small, hn::Mul(x.v, hn::Set(d, 8388608.0F)), x.v);
  const auto bits = hn::BitCast(whole, scaled);
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(whole, 0x3f400000)));  // of 0.75
  const Floats m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const Floats shift = hn::IfThenElseZero(is_small, hn::Set(d, 23.0F));
  const Floats e = hn::Sub(hn::ConvertTo(d, exponent), shift);
#endif
  const Floats f = hn::Sub(m, hn::Set(d, 1.0F));
  // e times the high part of log(2) is exact, and so is its sum with f if that is below 1. Both
  // parts are positive, so that an infinite e stays infinite.
  const Floats most = hn::MulAdd(e, hn::Set(d, 0.693115234375F), f);
  const Floats rest = hn::Mul(e, hn::Set(d, 3.19461833e-5F));
  const Lanes y(hn::Add(most, hn::MulAdd(polynomial(f, kTail), hn::Mul(f, f), rest)));
#if HWY_TARGET == HWY_AVX3
  return y;
#else
  return with_ends_of_log(x, y, Lanes(0));
#endif
}

// The error function. Below 0.93 a polynomial in x^2, above 1 - e^p(|x|).
HWY_INLINE Lanes erf_of(Lanes x) {
  const Lanes::D d;
  const auto set = [&](float c) HWY_ATTR { return hn::Set(d, c); };
  const auto t = at_most(4.0F, hn::Abs(x.v));  // erf is 1 in float32 from 3.92 on
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
  return Lanes(hn::IfThenElse(hn::Gt(t, set(0.927734375f)), large, small));
}

// The normal distribution's cdf: 2^p(|x|) below 0, p being a fit of log2(cdf(-|x|)), and 1 minus
// that above 0. The error is absolute: below x = -2 relative digits are lost, as they are in
// (1 + erf(x / sqrt(2))) / 2.
HWY_INLINE Lanes normal_cdf_of(Lanes x) {
  constexpr float kLog[] = {-1.0F,          -1.15110791F,     -0.45917663F,     -0.0526153818F,
                            0.00726594776F, -0.000312068383F, -0.000106845058F, 2.1607133e-5F,
                            -1.29673401e-6F};
  constexpr float kPower[] = {1.0F,           0.693147182F,   0.240226477F,   0.0555033237F,
                              0.00961843785F, 0.00133989519F, 0.000153532994F};
  const Lanes::D d;
  // 2^-200 is 0 in float32.
  const Floats log = at_least(-200.0F, polynomial(hn::Abs(x.v), kLog));
  const Floats n = hn::Round(log);
  const Floats below = times_power(polynomial(hn::Sub(log, n), kPower), n);
  const auto is_above = (Lanes(0) < x).m;
#if HWY_TARGET == HWY_AVX3
  const Floats one = hn::Set(d, 1.0F);
  return Lanes(Floats{_mm512_mask_sub_ps(below.raw, is_above.raw, one.raw, below.raw)});
#else
  return Lanes(hn::IfThenElse(is_above, hn::Sub(hn::Set(d, 1.0F), below), below));
#endif
}

}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
