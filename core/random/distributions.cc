#include "core/random/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/random/transforms.h"

namespace dl::random {
namespace {

// [0, 1) with as many random bits as T's significand holds.
template <typename T>
T unit(Generator::Locked& stream) noexcept {
  if constexpr (std::is_same_v<T, double>) {
    return static_cast<double>(stream.random64() & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
  } else {
    return static_cast<float>(stream.random() & ((std::uint32_t{1} << 24) - 1)) * 0x1p-24F;
  }
}

template <typename T>
void uniform(std::span<T> out, double low, double high, Generator& generator) {
  DL_CHECK(low <= high && high - low <= static_cast<double>(std::numeric_limits<T>::max()),
           kInvalidArgument, "uniform: got the range [{}, {}), wanted low <= high", low, high);
  if (out.empty()) return;
  Generator::Locked stream(generator);
  for (T& value : out) value = unit<T>(stream);
  uniform_from_unit(out.data(), out.size(), static_cast<T>(low), static_cast<T>(high));
}

// fill(span) draws floats, which are rounded.
template <typename T, typename Fill>
void round_into(std::span<T> out, const Fill& fill) {
  std::vector<float> wide(out.size());
  fill(std::span(wide));
  std::ranges::transform(wide, out.begin(), [](float value) { return T(value); });
}

template <typename T>
void uniform_rounded(std::span<T> out, double low, double high, Generator& generator) {
  round_into(out, [&](std::span<float> wide) { uniform(wide, low, high, generator); });
  // Rounding to fewer bits may reach the end that is not in the range.
  const T first(static_cast<float>(low));
  const float end{T(static_cast<float>(high))};
  for (T& value : out) {
    if (float{value} == end) value = first;
  }
}

// One sample of N(0, 1) in double precision, from the cache or from a new pair.
double normal_sample(Generator::Locked& stream) noexcept {
  if (std::optional<double>& cached = stream.cached_normal(); cached.has_value()) {
    return *std::exchange(cached, std::nullopt);
  }
  const auto u1 = unit<double>(stream);
  const auto u2 = unit<double>(stream);
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double theta = 2.0 * std::numbers::pi * u1;
  stream.cached_normal() = radius * std::sin(theta);
  return radius * std::cos(theta);
}

void check_std(double std) {
  DL_CHECK(std >= 0, kInvalidArgument, "normal: got std = {}, wanted at least 0", std);
}

template <typename T>
void normal_pairs(std::span<T> out, double mean, double std, Generator& generator) {
  check_std(std);
  if (out.empty()) return;
  Generator::Locked stream(generator);
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (T& value : out) {
    value = T(static_cast<Wide>(std::fma(normal_sample(stream), std, mean)));
  }
}

template <typename T>
void normal(std::span<T> out, double mean, double std, Generator& generator,
            bool draws_rest_twice = true) {
  if (out.size() < kNormalBlock) return normal_pairs(out, mean, std, generator);
  check_std(std);
  if (out.empty()) return;
  Generator::Locked stream(generator);
  const std::size_t whole = out.size() / kNormalBlock * kNormalBlock;
  for (T& value : out.first(draws_rest_twice ? out.size() : whole)) value = unit<T>(stream);
  normal_from_uniform(out.data(), whole / kNormalBlock, static_cast<T>(mean), static_cast<T>(std));
  if (out.size() != whole) {
    // PyTorch draws the last 16 anew rather than part of a block.
    const std::span<T> last = out.last(kNormalBlock);
    for (T& value : last) value = unit<T>(stream);
    normal_from_uniform(last.data(), 1, static_cast<T>(mean), static_cast<T>(std));
  }
}

template <typename T>
void normal_rounded(std::span<T> out, double mean, double std, Generator& generator) {
  round_into(out, [&](std::span<float> wide) {
    normal(wide, mean, std, generator, /*draws_rest_twice=*/false);
  });
}

template <typename T>
bool holds(std::int64_t value) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr std::int64_t kExact = std::int64_t{1} << std::numeric_limits<T>::digits;
    return value >= -kExact && value <= kExact;
  } else {
    return std::in_range<T>(value);
  }
}

}  // namespace

void fill_uniform(std::span<float> out, double low, double high, Generator& generator) {
  uniform(out, low, high, generator);
}

void fill_uniform(std::span<double> out, double low, double high, Generator& generator) {
  uniform(out, low, high, generator);
}

void fill_uniform(std::span<Half> out, double low, double high, Generator& generator) {
  uniform_rounded(out, low, high, generator);
}

void fill_uniform(std::span<BFloat16> out, double low, double high, Generator& generator) {
  uniform_rounded(out, low, high, generator);
}

void fill_normal(std::span<float> out, double mean, double std, Generator& generator) {
  normal(out, mean, std, generator);
}

void fill_normal(std::span<double> out, double mean, double std, Generator& generator) {
  normal(out, mean, std, generator);
}

void fill_normal(std::span<Half> out, double mean, double std, Generator& generator) {
  normal_rounded(out, mean, std, generator);
}

void fill_normal(std::span<BFloat16> out, double mean, double std, Generator& generator) {
  normal_rounded(out, mean, std, generator);
}

void fill_normal_pairs(std::span<float> out, double mean, double std, Generator& generator) {
  normal_pairs(out, mean, std, generator);
}

void fill_normal_pairs(std::span<double> out, double mean, double std, Generator& generator) {
  normal_pairs(out, mean, std, generator);
}

void fill_normal_pairs(std::span<Half> out, double mean, double std, Generator& generator) {
  normal_pairs(out, mean, std, generator);
}

void fill_normal_pairs(std::span<BFloat16> out, double mean, double std, Generator& generator) {
  normal_pairs(out, mean, std, generator);
}

template <typename T>
void fill_bernoulli(std::span<T> out, double p, Generator& generator) {
  DL_CHECK(is_probability(p), kInvalidArgument,
           "bernoulli: got p = {}, wanted a probability of [0, 1]", p);
  if (out.empty()) return;
  Generator::Locked stream(generator);
  for (T& value : out) value = static_cast<T>(unit<double>(stream) < p);
}

template void fill_bernoulli(std::span<float>, double, Generator&);
template void fill_bernoulli(std::span<double>, double, Generator&);
template void fill_bernoulli(std::span<bool>, double, Generator&);
template void fill_bernoulli(std::span<std::uint8_t>, double, Generator&);
template void fill_bernoulli(std::span<std::int64_t>, double, Generator&);

template <typename T>
void fill_bernoulli(std::span<T> out, std::span<const T> p, Generator& generator) {
  DL_CHECK(out.size() == p.size(), kShape, "bernoulli: got {} probabilities for {} elements",
           p.size(), out.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    DL_CHECK(is_probability(p[i]), kInvalidArgument,
             "bernoulli: element {} is {}, wanted a probability of [0, 1]", i, p[i]);
  }
  Generator::Locked stream(generator);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(unit<T>(stream) < p[i]);
}

template void fill_bernoulli(std::span<float>, std::span<const float>, Generator&);
template void fill_bernoulli(std::span<double>, std::span<const double>, Generator&);

template <typename T>
void fill_exponential(std::span<T> out, double lambda, Generator& generator) {
  DL_CHECK(lambda > 0 && std::isfinite(lambda), kInvalidArgument,
           "exponential: got lambda = {}, wanted a finite number above 0", lambda);
  if (out.empty()) return;
  Generator::Locked stream(generator);
  for (T& value : out) {
    const double time = -1 / lambda * std::log1p(-unit<double>(stream));
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(time);
    } else {
      value = T(static_cast<float>(time));
    }
  }
}

template void fill_exponential(std::span<float>, double, Generator&);
template void fill_exponential(std::span<double>, double, Generator&);
template void fill_exponential(std::span<Half>, double, Generator&);
template void fill_exponential(std::span<BFloat16>, double, Generator&);

template <typename T>
void fill_randint(std::span<T> out, std::int64_t low, std::int64_t high, Generator& generator) {
  DL_CHECK(low < high, kInvalidArgument, "randint: got the range [{}, {}), wanted low < high", low,
           high);
  DL_CHECK(holds<T>(low) && holds<T>(high - 1), kInvalidArgument,
           "randint: the range [{}, {}) does not fit the dtype of the result", low, high);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const auto base = static_cast<std::uint64_t>(low);
  if (out.empty()) return;
  Generator::Locked stream(generator);
  // 64 random bits if the range is 2^28 or more, as in PyTorch: 32 would be too uneven.
  const bool wide = range >= std::uint64_t{1} << 28;
  for (T& value : out) {
    const std::uint64_t bits = wide ? stream.random64() : stream.random();
    value = static_cast<T>(static_cast<std::int64_t>(bits % range + base));
  }
}

template void fill_randint(std::span<std::int64_t>, std::int64_t, std::int64_t, Generator&);
template void fill_randint(std::span<std::int32_t>, std::int64_t, std::int64_t, Generator&);
template void fill_randint(std::span<std::uint8_t>, std::int64_t, std::int64_t, Generator&);
template void fill_randint(std::span<float>, std::int64_t, std::int64_t, Generator&);
template void fill_randint(std::span<double>, std::int64_t, std::int64_t, Generator&);

void fill_random(std::span<std::int64_t> out, Generator& generator) {
  Generator::Locked stream(generator);
  for (std::int64_t& value : out) {
    value = static_cast<std::int64_t>(stream.random64() & ~(std::uint64_t{1} << 63));
  }
}

void fill_randperm(std::span<std::int64_t> out, Generator& generator) {
  const std::size_t n = out.size();
  Generator::Locked stream(generator);
  // Fisher and Yates; above the bound 32 random bits would be visibly uneven, and PyTorch changes
  // to 64 and to the inside-out variant.
  if (n < std::numeric_limits<std::uint32_t>::max() / 20) {
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = 0; i + 1 < n; ++i) std::swap(out[i], out[i + stream.random() % (n - i)]);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t j = stream.random64() % (i + 1);
    out[i] = static_cast<std::int64_t>(i);
    out[i] = out[j];
    out[j] = static_cast<std::int64_t>(i);
  }
}

}  // namespace dl::random
