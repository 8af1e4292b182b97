// Values for tests: the same on every run, spread over [-1, 1), none of them special.
#pragma once

#include <cstdint>
#include <vector>

namespace dl::kernels {

template <typename T>
std::vector<T> random_values(std::int64_t n, std::uint64_t seed = 1) {
  std::vector<T> values(static_cast<std::size_t>(n));
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (T& v : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    v = static_cast<T>(static_cast<double>(state >> 40) / (1 << 23) - 1);
  }
  return values;
}

template <typename T>
std::vector<double> as_f64(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

}  // namespace dl::kernels
