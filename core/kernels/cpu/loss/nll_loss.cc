#include "core/kernels/declared/loss.h"

#include <algorithm>
#include <vector>

#include "core/kernels/cpu/common/half_width.h"
#include "core/kernels/cpu/common/parts.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kNllGrain = 4 * 1024;  // targets worth a thread

// Targets on plain memory: position k of sample n has the class target[n * positions + k].
template <typename T>
struct NllTargets {
  NllTargets(const Tensor& targets, const Tensor& weights, const NllArgs& given,
             std::int64_t class_count)
      : target(targets.data<std::int64_t>()),
        weight(weights.defined() ? weights.data<T>() : nullptr),
        args(given),
        classes(class_count),
        samples(targets.size(0)),
        positions(targets.size(1)) {}

  T weight_of(std::int64_t c) const { return weight == nullptr ? T(1) : weight[c]; }
  // The offset of class 0 for target i.
  std::int64_t first(std::int64_t i) const {
    return i / positions * classes * positions + i % positions;
  }

  const std::int64_t* target;
  const T* weight;
  const NllArgs& args;
  std::int64_t classes;
  std::int64_t samples;
  std::int64_t positions;
};

template <typename T>
std::int64_t first_bad_target(const NllTargets<T>& t) {
  for (std::int64_t i = 0; i < t.samples * t.positions; ++i) {
    if (t.target[i] != t.args.ignore_index && (t.target[i] < 0 || t.target[i] >= t.classes)) {
      return i;
    }
  }
  return -1;
}

// The loss of one target that counts: (1 - smoothing) times its own class's, plus smoothing /
// classes times every class's.
template <typename T>
T loss_of_target(const NllTargets<T>& t, const T* log_probabilities, std::int64_t i) {
  const T* const x = log_probabilities + t.first(i);
  const std::int64_t own = t.target[i];
  const T loss = -t.weight_of(own) * x[own * t.positions];
  if (t.args.smoothing == 0) return loss;
  T all = 0;
  for (std::int64_t c = 0; c < t.classes; ++c) all -= t.weight_of(c) * x[c * t.positions];
  const T share = static_cast<T>(t.args.smoothing);
  return (T(1) - share) * loss + share / static_cast<T>(t.classes) * all;
}

struct NllSums {
  double loss = 0;
  double weight = 0;
};

template <typename T>
std::int64_t forward_nll(const NllTargets<T>& t, const T* log_probabilities, T* out, double* all) {
  const std::int64_t bad = first_bad_target(t);
  if (bad >= 0) return bad;
  const std::int64_t count = t.samples * t.positions;
  std::vector<NllSums> sums(static_cast<std::size_t>(parts_of(count, kNllGrain)));
  parallel_parts(count, kNllGrain, [&](int part, std::int64_t begin, std::int64_t end) {
    NllSums mine;
    for (std::int64_t i = begin; i < end; ++i) {
      const bool counts = t.target[i] != t.args.ignore_index;
      const T loss = counts ? loss_of_target(t, log_probabilities, i) : T(0);
      if (!t.args.reduced) out[i] = loss;
      if (!counts) continue;
      mine.loss += static_cast<double>(loss);
      mine.weight += static_cast<double>(t.weight_of(t.target[i]));
    }
    sums[static_cast<std::size_t>(part)] = mine;
  });
  if (t.args.first_part) all[0] = all[1] = 0;
  for (const NllSums& part : sums) {
    all[0] += part.loss;
    all[1] += part.weight;
  }
  if (t.args.reduced && t.args.last_part) *out = static_cast<T>(t.args.reduce(all[0], all[1]));
  return -1;
}

template <typename T>
void backward_nll(const NllTargets<T>& t, const T* grad, double total, T* d) {
  const T share = static_cast<T>(t.args.smoothing);
  const T own_share = T(1) - share;
  const T each_share = share / static_cast<T>(std::max<std::int64_t>(1, t.classes));
  const T common = static_cast<T>(t.args.mean ? 1 / total : 1.0);
  const std::int64_t count = t.samples * t.positions;
  parallel_for(count, kNllGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* const to = d + t.first(i);
      const bool counts = t.target[i] != t.args.ignore_index;
      const T g = counts ? (t.args.reduced ? *grad * common : grad[i]) : T(0);
      for (std::int64_t c = 0; c < t.classes; ++c) {
        to[c * t.positions] = counts && share != T(0) ? -g * each_share * t.weight_of(c) : T(0);
      }
      if (counts) to[t.target[i] * t.positions] -= g * own_share * t.weight_of(t.target[i]);
    }
  });
}

}  // namespace

std::int64_t nll_loss(const Tensor& log_probabilities, const Tensor& target, const Tensor& weight,
                      const NllArgs& args, const Tensor& out, const Tensor& sums) {
  if (is_half_width(log_probabilities)) {
    const Tensor wide = wide_like(out);
    const std::int64_t bad =
        nll_loss(widened(log_probabilities), target, widened(weight), args, wide, sums);
    if (bad < 0) round_into(wide, out);
    return bad;
  }
  return visit_f32_f64(log_probabilities, "nll_loss", [&]<typename T>() {
    const NllTargets<T> targets(target, weight, args, log_probabilities.size(1));
    return forward_nll(targets, log_probabilities.data<T>(), out.data<T>(), sums.data<double>());
  });
}

void nll_loss_backward(const Tensor& grad, const Tensor& target, const Tensor& weight,
                       const Tensor& sums, const NllArgs& args, const Tensor& d) {
  if (is_half_width(d)) {
    const Tensor wide = wide_like(d);
    nll_loss_backward(widened(grad), target, widened(weight), sums, args, wide);
    return round_into(wide, d);
  }
  visit_f32_f64(d, "nll_loss", [&]<typename T>() {
    const NllTargets<T> targets(target, weight, args, d.size(1));
    backward_nll(targets, grad.data<T>(), sums.data<double>()[1], d.data<T>());
  });
}

}  // namespace dl::kernels::cpu
