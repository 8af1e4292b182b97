#include "core/kernels/cpu/philox.h"

#include <algorithm>

#include "core/device/parallel.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kPhiloxGrain = 1024;  // blocks worth a thread

// body(words, first, count) for each block of `width` elements.
template <typename Body>
void for_each_block(std::int64_t elements, int width, const random::PhiloxSeed& seed,
                    const Body& body) {
  const std::int64_t blocks = (elements + width - 1) / width;
  parallel_for(blocks, kPhiloxGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * width;
      body(random::philox_block(seed, static_cast<std::uint64_t>(b)), first,
           static_cast<int>(std::min<std::int64_t>(width, elements - first)));
    }
  });
}

// draw(words, values) makes a block's values, which go to `out` rounded to its type.
template <typename T, typename Draw>
void fill(const Tensor& out, const random::PhiloxSeed& seed, const Draw& draw) {
  using M = OpMath<T>;
  constexpr int kWidth = random::kPhiloxElements<M>;
  T* const to = out.data<T>();
  for_each_block(out.numel(), kWidth, seed,
                 [&](const random::PhiloxWords& words, std::int64_t first, int count) {
                   M values[kWidth];
                   draw(words, values);
                   for (int i = 0; i < count; ++i) to[first + i] = static_cast<T>(values[i]);
                 });
}

}  // namespace

void philox_uniform(const Tensor& out, double low, double high, const random::PhiloxSeed& seed) {
  visit_floating(out.dtype(), "uniform", [&]<typename T>() {
    using M = OpMath<T>;
    fill<T>(out, seed, [&](const random::PhiloxWords& words, auto& values) {
      random::philox_uniform_block<M>(words, static_cast<M>(low), static_cast<M>(high), values);
      // Fewer bits may round up to the end that is not in the range.
      for (M& value : values) {
        if (static_cast<M>(static_cast<T>(value)) >= static_cast<M>(high)) {
          value = static_cast<M>(low);
        }
      }
    });
  });
}

void philox_normal(const Tensor& out, double mean, double std, const random::PhiloxSeed& seed) {
  visit_floating(out.dtype(), "normal", [&]<typename T>() {
    using M = OpMath<T>;
    fill<T>(out, seed, [&](const random::PhiloxWords& words, auto& values) {
      random::philox_normal_block<M>(words, static_cast<M>(mean), static_cast<M>(std), values);
    });
  });
}

void philox_dropout(const Tensor& input, double p, const random::PhiloxSeed& seed,
                    const Tensor& out) {
  visit_floating(input.dtype(), "dropout", [&]<typename T>() {
    using M = OpMath<T>;
    const T* const in = input.data<T>();
    T* const to = out.data<T>();
    const auto keep = static_cast<float>(1 - p);
    const M scale = static_cast<M>(1 / (1 - p));
    for_each_block(input.numel(), 4, seed,
                   [&](const random::PhiloxWords& words, std::int64_t first, int count) {
                     for (int i = 0; i < count; ++i) {
                       const bool kept = random::unit_float(words.word[i]) < keep;
                       to[first + i] =
                           kept ? static_cast<T>(static_cast<M>(in[first + i]) * scale) : T();
                     }
                   });
  });
}

}  // namespace dl::kernels::cpu
