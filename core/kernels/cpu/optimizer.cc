#include "core/kernels/cpu/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/device/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/optimizer.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#ifndef DLRUN_CORE_KERNELS_CPU_OPTIMIZER_
#define DLRUN_CORE_KERNELS_CPU_OPTIMIZER_
namespace dl::kernels {
namespace {

// Adam with the parts of the formula that are the same for all elements worked out:
// p = shrink * p - size * m / (sqrt(v) * root + eps).
struct AdamFactors {
  double keep1, keep2, eps, weight_decay, shrink, size, root;
};

template <typename T>
struct Sgd {
  explicit Sgd(const SgdTensor& t)
      : parameter(static_cast<T*>(t.parameter)),
        gradient(static_cast<const T*>(t.gradient)),
        momentum(static_cast<T*>(t.momentum)),
        first_step(t.first_step) {}
  T* parameter;
  const T* gradient;
  T* momentum;
  bool first_step;
};

template <typename T>
struct Adam {
  explicit Adam(const AdamTensor& t)
      : parameter(static_cast<T*>(t.parameter)),
        gradient(static_cast<const T*>(t.gradient)),
        mean(static_cast<T*>(t.mean)),
        square(static_cast<T*>(t.square)) {}
  T* parameter;
  const T* gradient;
  T* mean;
  T* square;
};

}  // namespace
}  // namespace dl::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename D, typename T>
void sgd_at(D d, const Sgd<T>& t, const SgdStep& step, std::int64_t i) {
  const auto set = [d](double v) HWY_ATTR { return hn::Set(d, static_cast<T>(v)); };
  const auto p = hn::LoadU(d, t.parameter + i);
  auto g = hn::LoadU(d, t.gradient + i);
  if (step.weight_decay != 0) g = hn::MulAdd(set(step.weight_decay), p, g);
  if (t.momentum != nullptr) {
    auto buffer = g;
    if (!t.first_step) {
      buffer = hn::MulAdd(set(1 - step.dampening), g,
                          hn::Mul(set(step.momentum), hn::LoadU(d, t.momentum + i)));
    }
    hn::StoreU(buffer, d, t.momentum + i);
    g = step.nesterov ? hn::MulAdd(set(step.momentum), buffer, g) : buffer;
  }
  hn::StoreU(hn::NegMulAdd(set(step.lr), g, p), d, t.parameter + i);
}

template <typename D, typename T>
void adam_at(D d, const Adam<T>& t, const AdamFactors& f, std::int64_t i) {
  const auto set = [d](double v) HWY_ATTR { return hn::Set(d, static_cast<T>(v)); };
  auto p = hn::LoadU(d, t.parameter + i);
  auto g = hn::LoadU(d, t.gradient + i);
  if (f.weight_decay != 0) g = hn::MulAdd(set(f.weight_decay), p, g);
  if (f.shrink != 1) p = hn::Mul(set(f.shrink), p);
  auto m = hn::LoadU(d, t.mean + i);
  // From the nearer end, as PyTorch's lerp: g - m loses a g that is much smaller than m.
  const auto apart = hn::Sub(g, m);
  m = 1 - f.keep1 < 0.5 ? hn::MulAdd(set(1 - f.keep1), apart, m)
                        : hn::NegMulAdd(set(f.keep1), apart, g);
  const auto v = hn::MulAdd(hn::Mul(set(1 - f.keep2), g), g,
                            hn::Mul(set(f.keep2), hn::LoadU(d, t.square + i)));
  hn::StoreU(m, d, t.mean + i);
  hn::StoreU(v, d, t.square + i);
  const auto denominator = hn::MulAdd(hn::Sqrt(v), set(f.root), set(f.eps));
  hn::StoreU(hn::Sub(p, hn::Div(hn::Mul(set(f.size), m), denominator)), d, t.parameter + i);
}

template <typename T>
void sgd_range(const Sgd<T>& t, const SgdStep& step, std::int64_t i, std::int64_t end) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= end; i += lanes) sgd_at(d, t, step, i);
  for (; i < end; ++i) sgd_at(hn::CappedTag<T, 1>(), t, step, i);
}

template <typename T>
void adam_range(const Adam<T>& t, const AdamFactors& f, std::int64_t i, std::int64_t end) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= end; i += lanes) adam_at(d, t, f, i);
  for (; i < end; ++i) adam_at(hn::CappedTag<T, 1>(), t, f, i);
}

void sgd_f32(const SgdTensor& t, const SgdStep& s, std::int64_t begin, std::int64_t end) {
  sgd_range(Sgd<float>(t), s, begin, end);
}
void sgd_f64(const SgdTensor& t, const SgdStep& s, std::int64_t begin, std::int64_t end) {
  sgd_range(Sgd<double>(t), s, begin, end);
}
void adam_f32(const AdamTensor& t, const AdamFactors& f, std::int64_t begin, std::int64_t end) {
  adam_range(Adam<float>(t), f, begin, end);
}
void adam_f64(const AdamTensor& t, const AdamFactors& f, std::int64_t begin, std::int64_t end) {
  adam_range(Adam<double>(t), f, begin, end);
}

}  // namespace
}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels {
namespace {

HWY_EXPORT(sgd_f32);
HWY_EXPORT(sgd_f64);
HWY_EXPORT(adam_f32);
HWY_EXPORT(adam_f64);

constexpr std::int64_t kGrain = 32 * 1024;  // elements worth a thread

// Calls update(tensor, begin, end) for each tensor's share of each thread's part of the whole.
template <typename Tensor, typename Update>
void for_all(std::span<const Tensor> tensors, const Update& update) {
  std::int64_t total = 0;
  for (const Tensor& t : tensors) total += t.n;
  parallel_for(total, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t start = 0;
    for (const Tensor& t : tensors) {
      const std::int64_t from = std::max<std::int64_t>(0, begin - start);
      const std::int64_t to = std::min(t.n, end - start);
      if (from < to) update(t, from, to);
      start += t.n;
    }
  });
}

AdamFactors factors(const AdamStep& s) {
  const auto t = static_cast<double>(s.step);
  return {.keep1 = s.beta1,
          .keep2 = s.beta2,
          .eps = s.eps,
          .weight_decay = s.decoupled ? 0 : s.weight_decay,
          .shrink = s.decoupled ? 1 - s.lr * s.weight_decay : 1,
          .size = s.lr / (1 - std::pow(s.beta1, t)),
          .root = 1 / std::sqrt(1 - std::pow(s.beta2, t))};
}

}  // namespace

namespace cpu {

void sgd_step(Device, DType dtype, std::span<const SgdTensor> tensors, const SgdStep& step,
              const OptimizerScalars&) {
  for_all(tensors, [&](const SgdTensor& t, std::int64_t begin, std::int64_t end) {
    if (dtype == DType::kF32) {
      HWY_DYNAMIC_DISPATCH(sgd_f32)(t, step, begin, end);
    } else {
      HWY_DYNAMIC_DISPATCH(sgd_f64)(t, step, begin, end);
    }
  });
}

void adam_step(Device, DType dtype, std::span<const AdamTensor> tensors, const AdamStep& step,
               const OptimizerScalars&) {
  const AdamFactors f = factors(step);
  for_all(tensors, [&](const AdamTensor& t, std::int64_t begin, std::int64_t end) {
    if (dtype == DType::kF32) {
      HWY_DYNAMIC_DISPATCH(adam_f32)(t, f, begin, end);
    } else {
      HWY_DYNAMIC_DISPATCH(adam_f64)(t, f, begin, end);
    }
  });
}

}  // namespace cpu
}  // namespace dl::kernels
#endif
