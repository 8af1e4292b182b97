#include "core/kernels/cpu/vector_math.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/vector_math.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kInf = std::numeric_limits<float>::infinity();

// Highway's functions are defined for finite arguments in their range; the rest is put right here.

HWY_INLINE V safe_exp(D d, V x) {
  const V y = hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V safe_log(D d, V x) {
  const V zero = hn::Zero(d);
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, kInf)), x, y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Set(d, -kInf), y);
  return hn::IfThenElse(hn::Ge(x, zero), y, hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
}

HWY_INLINE V safe_tanh(D d, V x) {
  const V bound = hn::Set(d, 20.0f);  // tanh is 1 in float32 from 9.1 on
  const V y = hn::Tanh(d, hn::Min(hn::Max(x, hn::Neg(bound)), bound));
  // Zero keeps its sign, and so does NaN its being one.
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, hn::Zero(d))), x, y);
}

HWY_INLINE V safe_sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, safe_exp(d, hn::Neg(x))));
}

// Whole vectors where the run is dense; all else through a block, so that every element meets the
// same instructions.
template <typename F>
HWY_INLINE void run(const F& f, const void* input, std::int64_t in_step, void* output,
                    std::int64_t out_step, std::int64_t length) {
  const D d;
  const auto* in = static_cast<const float*>(input);
  auto* out = static_cast<float*>(output);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  if (in_step == 1 && out_step == 1) {
    for (; i + lanes <= length; i += lanes) hn::StoreU(f(d, hn::LoadU(d, in + i)), d, out + i);
  }
  HWY_ALIGN float block[hn::MaxLanes(d)] = {};
  while (i < length) {
    const std::int64_t count = std::min(lanes, length - i);
    for (std::int64_t k = 0; k < count; ++k) block[k] = in[(i + k) * in_step];
    hn::Store(f(d, hn::Load(d, block)), d, block);
    for (std::int64_t k = 0; k < count; ++k) out[(i + k) * out_step] = block[k];
    i += count;
  }
}

#define DL_VECTOR_ROW(name, function)                                                          \
  void name(const void* in, std::int64_t in_step, void* out, std::int64_t out_step,            \
            std::int64_t length) {                                                             \
    run([](D d, V x) HWY_ATTR { return function(d, x); }, in, in_step, out, out_step, length); \
  }
DL_VECTOR_ROW(exp_row, safe_exp)
DL_VECTOR_ROW(log_row, safe_log)
DL_VECTOR_ROW(tanh_row, safe_tanh)
DL_VECTOR_ROW(sigmoid_row, safe_sigmoid)
#undef DL_VECTOR_ROW

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

#define DL_DISPATCH_ROW(name, row)                                                  \
  HWY_EXPORT(row);                                                                  \
  void name(const void* in, std::int64_t in_step, void* out, std::int64_t out_step, \
            std::int64_t length, double) {                                          \
    HWY_DYNAMIC_DISPATCH(row)(in, in_step, out, out_step, length);                  \
  }
DL_DISPATCH_ROW(exp_f32, exp_row)
DL_DISPATCH_ROW(log_f32, log_row)
DL_DISPATCH_ROW(tanh_f32, tanh_row)
DL_DISPATCH_ROW(sigmoid_f32, sigmoid_row)
#undef DL_DISPATCH_ROW

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
