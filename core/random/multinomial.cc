#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "core/random/distributions.h"

namespace dl::random {
namespace {

// Each index wins with its share of the weights where it has the largest weight / Exp(1).
void draw_by_exponentials(std::span<std::int64_t> out, std::span<const double> weights,
                          Generator& generator) {
  std::vector<double> keys(weights.size());
  fill_uniform(std::span(keys), 0, 1, generator);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = weights[i] / -std::log1p(-keys[i]);
  std::vector<std::int64_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(out.size()),
                            std::ranges::greater(),
                            [&](std::int64_t i) { return keys[static_cast<std::size_t>(i)]; });
  std::copy_n(order.begin(), out.size(), out.begin());
}

}  // namespace

void check_multinomial(std::span<const double> weights, std::int64_t count, bool replacement) {
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

void fill_multinomial(std::span<std::int64_t> out, std::span<const double> weights,
                      bool replacement, Generator& generator) {
  if (out.empty()) return;
  check_multinomial(weights, static_cast<std::int64_t>(out.size()), replacement);
  // PyTorch's shortcut, too.
  if (!replacement || out.size() == 1) return draw_by_exponentials(out, weights, generator);
  std::vector<double> share_up_to(weights.size());
  std::partial_sum(weights.begin(), weights.end(), share_up_to.begin());
  const double sum = share_up_to.back();
  for (double& share : share_up_to) share /= sum;
  share_up_to.back() = 1;
  std::vector<double> draws(out.size());
  fill_uniform(std::span(draws), 0, 1, generator);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::ranges::lower_bound(share_up_to, draws[i]) - share_up_to.begin();
  }
}

}  // namespace dl::random
