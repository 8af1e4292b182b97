// LanesOf: a vector as a number type of the formulas. LanesOf<double> has basic arithmetic only.
// Included once for each of Highway's targets.
#if defined(DL_VECTOR_NUMBERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DL_VECTOR_NUMBERS_INL_H_
#undef DL_VECTOR_NUMBERS_INL_H_
#else
#define DL_VECTOR_NUMBERS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>
#include <type_traits>

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
  return {hn::Not(hn::Eq(a.v, b.v))};  // true for NaN, unlike hn::Ne
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

// Applies function(x[i], y[i]) lane by lane, for functions without a vector form.
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

}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
