#include "core/kernels/declared/optimizer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "core/device/parallel.h"
#include "core/kernels/cpu/elementwise/compute_type.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/optimizer/optimizer.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "core/kernels/cpu/elementwise/vector/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
#define DL_INLINE HWY_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::cpu::HWY_NAMESPACE
#include "core/kernels/formulas/optimizer_rules-inl.h"

namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

// Elements from `i` to `end` of one tensor.
template <typename T, typename Rule, typename Step, typename Factors>
void update_range(const OptimizerTensor& t, const Step& step, const Factors& given, std::int64_t i,
                  std::int64_t end) {
  using N = LanesOf<T>;
  const typename N::D d;
  const Factors f = given;  // a copy that the compiler knows no store below changes
  auto* const parameter = static_cast<T*>(t.parameter);
  const auto* const gradient = static_cast<const T*>(t.gradient);
  T* state[Step::kState];
  for (int k = 0; k < Step::kState; ++k) state[k] = static_cast<T*>(t.state[k]);
  const auto at = [&](const auto& load, const auto& store) HWY_ATTR {
    N p = load(parameter);
    N s[Step::kState];
    for (int k = 0; k < Step::kState; ++k) {
      if (state[k] != nullptr) s[k] = load(state[k]);
    }
    Rule::update(f, t.first_step, p, directed(step, load(gradient)), s);
    store(p, parameter);
    for (int k = 0; k < Step::kState; ++k) {
      if (state[k] != nullptr) store(s[k], state[k]);
    }
  };
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= end; i += lanes) {
    at([&](const T* from) HWY_ATTR { return N(hn::LoadU(d, from + i)); },
       [&](N x, T* to) HWY_ATTR { hn::StoreU(x.v, d, to + i); });
  }
  const auto rest = static_cast<std::size_t>(end - i);
  if (rest == 0) return;
  HWY_ALIGN T pad[hn::MaxLanes(d)] = {};
  at(
      [&](const T* from) HWY_ATTR {
        std::copy_n(from + i, rest, pad);
        return N(hn::Load(d, pad));
      },
      [&](N x, T* to) HWY_ATTR {
        hn::Store(x.v, d, pad);
        std::copy_n(pad, rest, to + i);
      });
}

// As update_range() for a parameter and a gradient of float16 or bfloat16: they are converted to
// float block by block, and the parameter is rounded once.
template <typename Rule, typename Step, typename Factors>
void update_half_range(DType dtype, const OptimizerTensor& t, const Step& step,
                       const Factors& factors, std::int64_t i, std::int64_t end) {
  const Load load = load_as(dtype, DType::kF32);
  const Store store = store_from(DType::kF32, dtype);
  float parameter[kBlock];
  float gradient[kBlock];
  for (; i < end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, end - i);
    std::uint16_t* const from = static_cast<std::uint16_t*>(t.parameter) + i;
    load(from, 1, parameter, count);
    load(static_cast<const std::uint16_t*>(t.gradient) + i, 1, gradient, count);
    OptimizerTensor block = t;
    block.parameter = parameter;
    block.gradient = gradient;
    for (int k = 0; k < Step::kState; ++k) {
      if (t.state[k] != nullptr) block.state[k] = static_cast<float*>(t.state[k]) + i;
    }
    update_range<float, Rule>(block, step, factors, 0, count);
    store(parameter, from, 1, count);
  }
}

// Elements `begin` to `end` of the concatenation of all tensors.
template <typename T, typename Step>
void update_part(DType dtype, std::span<const OptimizerTensor> tensors, const Step& step,
                 std::int64_t begin, std::int64_t end) {
  using Rule = RuleOf<Step>;
  typename Rule::template Factors<T> factors{};
  const OptimizerTensor* known = nullptr;  // whose counts `factors` is for
  std::int64_t start = 0;
  for (const OptimizerTensor& t : tensors) {
    const std::int64_t from = std::max<std::int64_t>(0, begin - start);
    const std::int64_t to = std::min(t.n, end - start);
    start += t.n;
    if (from >= to) continue;
    if (known == nullptr || !same(counts_of<Step>(known->counts), counts_of<Step>(t.counts))) {
      factors = Rule::template factors<T>(step, step.lr, counts_of<Step>(t.counts));
      known = &t;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (dtype != DType::kF32) {
        update_half_range<Rule>(dtype, t, step, factors, from, to);
        continue;
      }
    }
    update_range<T, Rule>(t, step, factors, from, to);
  }
}

template <typename T>
void update(DType dtype, std::span<const OptimizerTensor> tensors, const OptimizerStep& step,
            std::int64_t begin, std::int64_t end) {
  std::visit([&](const auto& s) HWY_ATTR { update_part<T>(dtype, tensors, s, begin, end); }, step);
}

void update_f32(DType dtype, std::span<const OptimizerTensor> tensors, const OptimizerStep& step,
                std::int64_t begin, std::int64_t end) {
  update<float>(dtype, tensors, step, begin, end);
}
void update_f64(DType dtype, std::span<const OptimizerTensor> tensors, const OptimizerStep& step,
                std::int64_t begin, std::int64_t end) {
  update<double>(dtype, tensors, step, begin, end);
}
void count(std::span<const OptimizerTensor> tensors, const OptimizerStep& step) {
  std::visit(
      [&](const auto& s) HWY_ATTR {
        for (const OptimizerTensor& t : tensors) raise_counts(s, t.counts);
      },
      step);
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {
namespace {

HWY_EXPORT(update_f32);
HWY_EXPORT(update_f64);
HWY_EXPORT(count);

}  // namespace

void optimizer_step(Device, DType dtype, std::span<const OptimizerTensor> tensors,
                    const OptimizerStep& step, const OptimizerScalars&) {
  constexpr std::int64_t kGrain = 32 * 1024;  // elements worth a thread
  HWY_DYNAMIC_DISPATCH(count)(tensors, step);
  std::int64_t total = 0;
  for (const OptimizerTensor& t : tensors) total += t.n;
  parallel_for(total, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (dtype == DType::kF64) {
      HWY_DYNAMIC_DISPATCH(update_f64)(dtype, tensors, step, begin, end);
    } else {
      HWY_DYNAMIC_DISPATCH(update_f32)(dtype, tensors, step, begin, end);
    }
  });
}

}  // namespace dl::kernels::cpu
#endif
