#include "core/kernels/declared/optimizer.h"

#include <atomic>
#include <cmath>

#include "core/device/parallel.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 32 * 1024;  // elements worth a thread

template <typename T>
bool unscale_run(T* data, std::int64_t step, std::int64_t length, float inverse) {
  using M = OpMath<T>;
  bool finite = true;
  for (std::int64_t i = 0; i < length; ++i) {
    const M value = static_cast<M>(data[i * step]);
    finite = finite && std::isfinite(value);
    data[i * step] = static_cast<T>(value * static_cast<M>(inverse));
  }
  return finite;
}

template <typename T>
bool unscale(const Tensor& gradient, float inverse) {
  const auto loop = make_loop<1>(gradient.sizes(), {gradient.strides()});
  T* const data = gradient.data<T>();
  std::atomic<bool> finite{true};
  parallel_for(loop.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      if (!unscale_run(data + at[0], loop.inner_stride(0), length, inverse)) {
        finite.store(false, std::memory_order_relaxed);
      }
    });
  });
  return finite.load();
}

}  // namespace

void amp_unscale(const Tensor& inverse_scale, std::span<const Tensor> gradients,
                 const Tensor& found_inf) {
  const float inverse = *inverse_scale.data<float>();
  for (const Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const bool finite = visit_floating(gradient.dtype(), "amp_unscale",
                                       [&]<typename T>() { return unscale<T>(gradient, inverse); });
    if (!finite) *found_inf.data<float>() = 1.0F;
  }
}

void amp_update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                      const ScaleUpdate& update) {
  float& value = *scale.data<float>();
  std::int32_t& good_steps = *growth_tracker.data<std::int32_t>();
  if (*found_inf.data<float>() != 0) {
    value *= static_cast<float>(update.backoff_factor);
    good_steps = 0;
    return;
  }
  if (++good_steps < update.growth_interval) return;
  good_steps = 0;
  const float grown = value * static_cast<float>(update.growth_factor);
  if (std::isfinite(grown)) value = grown;
}

}  // namespace dl::kernels::cpu
