#include "core/kernels/declared/random.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/device/parallel.h"
#include "core/random/philox.h"

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

// draw(words, values) makes a block's values, which are rounded to the type of `out`.
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
      // Rounding to fewer bits may give `high`, which is outside the range.
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

void philox_randint(const Tensor& out, std::int64_t low, std::uint64_t range,
                    const random::PhiloxSeed& seed) {
  const auto draw = [&]<typename T>() {
    T* const to = out.data<T>();
    for_each_block(
        out.numel(), 2, seed, [&](const random::PhiloxWords& words, std::int64_t first, int count) {
          for (int i = 0; i < count; ++i) {
            const std::uint64_t above = random::scaled_down(random::word64(words, i), range);
            to[first + i] =
                static_cast<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + above));
          }
        });
  };
  switch (out.dtype()) {
    case DType::kI64:
      return draw.template operator()<std::int64_t>();
    case DType::kI32:
      return draw.template operator()<std::int32_t>();
    case DType::kU8:
      return draw.template operator()<std::uint8_t>();
    case DType::kF32:
      return draw.template operator()<float>();
    case DType::kF64:
      return draw.template operator()<double>();
    default:
      refuse_dtype("randint", out.dtype(), "int64, int32, uint8, float32 or float64");
  }
}

void philox_bernoulli(const Tensor& probabilities, const random::PhiloxSeed& seed,
                      const Tensor& out) {
  const auto draw = [&]<typename T>() {
    const T* const p = probabilities.data<T>();
    const auto* const bad =
        std::find_if_not(p, p + out.numel(), [](T each) { return random::is_probability(each); });
    DL_CHECK(bad == p + out.numel(), kInvalidArgument,
             "bernoulli: element {} is {}, wanted a probability of [0, 1]", bad - p, *bad);
    T* const to = out.data<T>();
    for_each_block(
        out.numel(), 2, seed, [&](const random::PhiloxWords& words, std::int64_t first, int count) {
          for (int i = 0; i < count; ++i) {
            const int word = 2 * i;
            const double unit = random::unit_double(words.word[word], words.word[word + 1]);
            to[first + i] = static_cast<T>(unit < p[first + i]);
          }
        });
  };
  switch (out.dtype()) {
    case DType::kF32:
      return draw.template operator()<float>();
    case DType::kF64:
      return draw.template operator()<double>();
    default:
      refuse_dtype("bernoulli", out.dtype(), "float32 or float64");
  }
}

void philox_randperm(const Tensor& out, const random::PhiloxSeed& seed) {
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(out.numel()));
  for_each_block(out.numel(), 2, seed,
                 [&](const random::PhiloxWords& words, std::int64_t first, int count) {
                   for (int i = 0; i < count; ++i) {
                     keys[static_cast<std::size_t>(first + i)] = random::word64(words, i);
                   }
                 });
  const std::span<std::int64_t> order(out.data<std::int64_t>(), keys.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // Equal keys keep their order, as on GPUs. (clang rejects libstdc++ 12's std::stable_sort, which
  // uses functions that C++17 has deprecated.)
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const std::uint64_t of_a = keys[static_cast<std::size_t>(a)];
    const std::uint64_t of_b = keys[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a < of_b : a < b;
  });
}

}  // namespace dl::kernels::cpu
