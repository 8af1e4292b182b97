#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "core/random/distributions.h"

namespace dl::random {
namespace {

// The index with the largest weight / Exp(1) has a probability proportional to its weight.
template <typename T>
void draw_by_exponentials(std::span<std::int64_t> out, std::span<const T> weights,
                          Generator& generator) {
  std::vector<T> keys(weights.size());
  fill_exponential(std::span(keys), 1, generator);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // An exponential of 0 would make the key of a weight of 0 NaN.
    keys[i] = weights[i] / std::max(keys[i], std::numeric_limits<T>::min());
  }
  std::vector<std::int64_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(out.size()),
                            std::ranges::greater(),
                            [&](std::int64_t i) { return keys[static_cast<std::size_t>(i)]; });
  std::copy_n(order.begin(), out.size(), out.begin());
}

}  // namespace

template <typename T>
void check_multinomial(std::span<const T> weights, std::int64_t count, bool replacement) {
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    DL_CHECK(weights[i] >= 0 && std::isfinite(weights[i]), kInvalidArgument,
             "multinomial: weight {} is {}, wanted a finite number of at least 0", i, weights[i]);
    if (weights[i] > 0) ++positive;
  }
  DL_CHECK(positive > 0, kInvalidArgument, "multinomial: none of the {} weights is more than 0",
           weights.size());
  DL_CHECK(replacement || count <= positive, kInvalidArgument,
           "multinomial: cannot draw {} numbers without replacement where {} weights are more than "
           "0",
           count, positive);
}
template void check_multinomial(std::span<const float>, std::int64_t, bool);
template void check_multinomial(std::span<const double>, std::int64_t, bool);

template <typename T>
void fill_multinomial(std::span<std::int64_t> out, std::span<const T> weights, bool replacement,
                      Generator& generator) {
  if (out.empty()) return;
  check_multinomial(weights, static_cast<std::int64_t>(out.size()), replacement);
  // As PyTorch's shortcut.
  if (!replacement || out.size() == 1) return draw_by_exponentials(out, weights, generator);
  std::vector<T> share_up_to(weights.size());
  std::partial_sum(weights.begin(), weights.end(), share_up_to.begin());
  const T sum = share_up_to.back();
  for (T& share : share_up_to) share /= sum;
  share_up_to.back() = 1;
  std::vector<double> draws(out.size());
  fill_uniform(std::span(draws), 0, 1, generator);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::ranges::lower_bound(share_up_to, draws[i]) - share_up_to.begin();
  }
}
template void fill_multinomial(std::span<std::int64_t>, std::span<const float>, bool, Generator&);
template void fill_multinomial(std::span<std::int64_t>, std::span<const double>, bool, Generator&);

}  // namespace dl::random
