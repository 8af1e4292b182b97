// The formulas (formulas-inl.h) for vectors of float, the functions that they call, and loops of
// such vectors. Included once for each of Highway's targets.
//
// Highway's functions are defined for finite arguments in a range; the functions here are defined
// for all arguments, with the results of std:: for infinities, NaN and zeros and errors of at most
// 4 ulp (the normal cdf: half an ulp of 1).
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
#include "core/kernels/cpu/elementwise/vector/exponentials-inl.h"
#include "core/kernels/cpu/elementwise/vector/half_lanes-inl.h"
#include "core/kernels/cpu/elementwise/vector/vector_numbers-inl.h"
#include "core/kernels/formulas/numbers.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {

HWY_INLINE Lanes expm1_of(Lanes x) {
  const Lanes::D d;
  const Lanes y(hn::Expm1(d, hn::Min(x.v, hn::Set(d, 104.0f))));
  return select(x == Lanes(0), x, keep_nan(x, y));
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

// y, but function(x) in lanes in which x is NaN or too large for Highway's sine and cosine.
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

// x86's instructions return their second operand if one is NaN, or if both are zeros.
HWY_INLINE Lanes larger_of(Lanes a, Lanes b) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return Lanes(hn::Max(a.v, b.v));
#else
  return select(b < a, a, b);
#endif
}
HWY_INLINE Lanes smaller_of(Lanes a, Lanes b) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return Lanes(hn::Min(a.v, b.v));
#else
  return select(a < b, a, b);
#endif
}

HWY_INLINE Lanes pow_of(Lanes x, Lanes exponent) {
  return lane_by_lane([](float a, float b) { return std::pow(a, b); }, x, exponent);
}
HWY_INLINE Lanes fmod_of(Lanes a, Lanes b) {
  return lane_by_lane([](float x, float y) { return std::fmod(x, y); }, a, b);
}
HWY_INLINE Lanes copysign_of(Lanes a, Lanes b) {
  return Lanes(hn::CopySign(a.v, b.v));
}
HWY_INLINE Lanes floor_quotient_of(Lanes a, Lanes b) {
  return lane_by_lane([](float x, float y) { return kernels::floor_quotient_of(x, y); }, a, b);
}
// 1 - erf(x) would lose all digits of a small result.
HWY_INLINE Lanes erfc_of(Lanes x) {
  return lane_by_lane([](float a, float) { return std::erfc(a); }, x, x);
}
HWY_INLINE Lanes lgamma_of(Lanes x) {
  return lane_by_lane([](float a, float) { return kernels::lgamma_of(a); }, x, x);
}
HWY_INLINE Lanes digamma_of(Lanes x) {
  return lane_by_lane([](float a, float) { return kernels::digamma_of(a); }, x, x);
}
HWY_INLINE Lanes trigamma_of(Lanes x) {
  return lane_by_lane([](float a, float) { return kernels::trigamma_of(a); }, x, x);
}

HWY_INLINE Lanes tan_of(Lanes x) {
  const Lanes::D d;
  const Lanes y(hn::Div(hn::Sin(d, x.v), hn::Cos(d, x.v)));
  return select(x == Lanes(0), x, with_large_angles(x, y, [](float a) { return std::tan(a); }));
}

// 2^n e^(f log(2)) for x = n + f with a whole n, in two factors, so that subnormal results are
// right too.
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

// y if |x| <= 1, else NaN.
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

// e^(x / 2) is finite if a hyperbolic function of x is.
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

// True if an operation has a bfloat16 row.
constexpr bool has_bf16_row(CudaKernel cuda) {
  return cuda == CudaKernel::kHot && HWY_TARGET != HWY_SCALAR;
}

// out = f(operands): f gets an array of vectors, one for each operand. Operands and `out` have type
// E, but a broadcast scalar is a float. The tail of a run is computed in a padded copy by the same
// instructions.
template <typename E, std::size_t kOperands, typename F>
HWY_INLINE void for_each_vector(const RowArguments& run, const F& f) {
  constexpr bool kFloat = std::is_same_v<E, float>;
  constexpr std::size_t kVectors = kVectorsOfGroup<E>;
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(kVectors * hn::Lanes(d));
  HWY_ALIGN E pad[kOperands][kVectors * hn::MaxLanes(d)];
  const E* in[kOperands];
  std::int64_t step[kOperands];
  Lanes repeated[kOperands];
  for (std::size_t k = 0; k < kOperands; ++k) {
    in[k] = static_cast<const E*>(run.in[k]);
    step[k] = run.step[k] * lanes;
    if (!kFloat && step[k] == 0) {
      load_group(static_cast<const float*>(run.in[k]), &repeated[k]);
    }
  }
  auto* out = static_cast<E*>(run.out);
  std::int64_t whole = run.count / lanes;
  const std::int64_t tail = run.count - whole * lanes;
  E* const out_tail = out + whole * lanes;
  for (bool in_tail = false;; in_tail = true) {
    for (std::int64_t i = 0; i < whole; ++i) {
      Lanes x[kVectors][kOperands];
      for (std::size_t k = 0; k < kOperands; ++k) {
        Lanes part[kVectors];
        if (kFloat || step[k] != 0) {
          load_group(in[k], part);
        } else {
          for (std::size_t v = 0; v < kVectors; ++v) part[v] = repeated[k];
        }
        for (std::size_t v = 0; v < kVectors; ++v) x[v][k] = part[v];
        in[k] += step[k];
      }
      Lanes result[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) result[v] = f(x[v]);
      store_group(result, out);
      out += lanes;
    }
    if (in_tail) break;
    if (tail == 0) return;
    for (std::size_t k = 0; k < kOperands; ++k) {
      if (!kFloat && step[k] == 0) continue;
      const std::int64_t count = step[k] == 0 ? lanes : tail;
      std::fill_n(pad[k], lanes, E());
      std::memcpy(pad[k], in[k], static_cast<std::size_t>(count) * sizeof(E));
      in[k] = pad[k];
    }
    out = pad[0];
    whole = 1;
  }
  std::memcpy(out_tail, pad[0], static_cast<std::size_t>(tail) * sizeof(E));
}

}  // namespace dl::kernels::cpu::HWY_NAMESPACE

#define DL_INLINE HWY_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::cpu::HWY_NAMESPACE
#include "core/kernels/formulas/formulas-inl.h"

namespace dl::kernels::cpu::HWY_NAMESPACE {
HWY_INLINE Given<Lanes> given(const Parameters& parameters) {
  return {Lanes(parameters.a), Lanes(parameters.b)};
}
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
