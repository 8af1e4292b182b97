#include "core/kernels/declared/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/device/parallel.h"

namespace dl::kernels::cpu {
namespace {

// Probabilities are summed in float64: in float32 the error over many steps exceeds 1e-6.
constexpr double kNever = -std::numeric_limits<double>::infinity();  // the logarithm of 0

double log_sum(double a, double b, double c) {
  const double largest = std::max(a, std::max(b, c));
  if (largest == kNever) return a + b + c;  // NaN, if one is
  return std::log(std::exp(a - largest) + std::exp(b - largest) + std::exp(c - largest)) + largest;
}

// A sample: its labels with a blank before, between and after them.
template <typename T>
struct CtcSample {
  CtcSample(const Tensor& log_probs, const Tensor& labels, const Tensor& lengths,
            std::int64_t blank_class, std::int64_t sample)
      : steps(length(lengths, 0, sample)),
        places(2 * length(lengths, 1, sample) + 1),
        classes(log_probs.size(2)),
        step_size(log_probs.size(1) * classes),
        blank(blank_class),
        label(labels.data<std::int64_t>() + length(lengths, 2, sample)),
        x(log_probs.data<T>() + sample * classes) {}

  static std::int64_t length(const Tensor& lengths, std::int64_t which, std::int64_t sample) {
    return lengths.data<std::int64_t>()[which * lengths.size(1) + sample];
  }
  std::int64_t class_at(std::int64_t place) const {
    return place % 2 == 0 ? blank : label[place / 2];
  }
  double log_prob(std::int64_t step, std::int64_t place) const {
    return static_cast<double>(x[step * step_size + class_at(place)]);
  }
  // True if a path may skip the blank between `place` and the label two places later.
  bool skips(std::int64_t place) const {
    return place >= 0 && place + 2 < places && class_at(place) != class_at(place + 2);
  }

  std::int64_t steps;
  std::int64_t places;
  std::int64_t classes;
  std::int64_t step_size;
  std::int64_t blank;
  const std::int64_t* label;
  const T* x;
};

template <typename T>
double loss_of_sample(const CtcSample<T>& s, double* alpha, std::int64_t width) {
  if (s.steps == 0) return s.places == 1 ? 0 : -kNever;
  std::fill(alpha, alpha + width, kNever);
  for (std::int64_t p = 0; p < std::min<std::int64_t>(2, s.places); ++p) {
    alpha[p] = s.log_prob(0, p);
  }
  for (std::int64_t t = 1; t < s.steps; ++t) {
    const double* const before = alpha + (t - 1) * width;
    double* const now = alpha + t * width;
    for (std::int64_t p = 0; p < s.places; ++p) {
      now[p] = log_sum(before[p], p > 0 ? before[p - 1] : kNever,
                       s.skips(p - 2) ? before[p - 2] : kNever) +
               s.log_prob(t, p);
    }
  }
  const double* const last = alpha + (s.steps - 1) * width;
  return -log_sum(last[s.places - 1], s.places > 1 ? last[s.places - 2] : kNever, kNever);
}

// `d` has the layout of the log probabilities, beginning with the sample's first element.
template <typename T>
void gradient_of_sample(const CtcSample<T>& s, const double* alpha, std::int64_t width, double loss,
                        double grad, T* d) {
  std::vector<double> after(static_cast<std::size_t>(s.places) + 2, kNever);  // beta of step t + 1
  std::vector<double> beta = after;
  std::vector<double> paths(static_cast<std::size_t>(s.classes));  // summed over a class
  for (std::int64_t t = s.steps - 1; t >= 0; --t) {
    std::fill(paths.begin(), paths.end(), kNever);
    for (std::int64_t p = 0; p < s.places; ++p) {
      const auto i = static_cast<std::size_t>(p);
      const bool ends = t == s.steps - 1 && p + 2 >= s.places;
      const double rest =
          ends ? 0 : log_sum(after[i], after[i + 1], s.skips(p) ? after[i + 2] : kNever);
      beta[i] = rest + s.log_prob(t, p);
      double& of_class = paths[static_cast<std::size_t>(s.class_at(p))];
      of_class = log_sum(of_class, alpha[t * width + p] + beta[i], kNever);
    }
    for (std::int64_t c = 0; c < s.classes; ++c) {
      const auto x = static_cast<double>(s.x[t * s.step_size + c]);
      const double share = std::exp(paths[static_cast<std::size_t>(c)] + loss - x);
      d[t * s.step_size + c] = static_cast<T>((std::exp(x) - share) * grad);
    }
    std::swap(beta, after);
  }
}

}  // namespace

void ctc_loss(const Tensor& log_probs, const Tensor& labels, const Tensor& lengths,
              std::int64_t blank, const Tensor& alpha, const Tensor& losses) {
  const auto run = [&]<typename T>(T) {
    const std::int64_t width = alpha.size(2);
    const std::int64_t size = alpha.size(1) * width;
    parallel_for(losses.numel(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        losses.data<double>()[i] =
            loss_of_sample(CtcSample<T>(log_probs, labels, lengths, blank, i),
                           alpha.data<double>() + i * size, width);
      }
    });
  };
  log_probs.dtype() == DType::kF64 ? run(double{}) : run(float{});
}

void ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& labels,
                       const Tensor& lengths, const Tensor& alpha, const Tensor& losses,
                       std::int64_t blank, bool zero_infinity, const Tensor& d) {
  const auto run = [&]<typename T>(T) {
    const std::int64_t width = alpha.size(2);
    const std::int64_t size = alpha.size(1) * width;
    std::fill_n(d.data<T>(), d.numel(), T(0));
    parallel_for(losses.numel(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double loss = losses.data<double>()[i];
        if (zero_infinity && loss == -kNever) continue;
        gradient_of_sample(CtcSample<T>(log_probs, labels, lengths, blank, i),
                           alpha.data<double>() + i * size, width, loss,
                           static_cast<double>(grad.data<T>()[i]), d.data<T>() + i * d.size(2));
      }
    });
  };
  log_probs.dtype() == DType::kF64 ? run(double{}) : run(float{});
}

}  // namespace dl::kernels::cpu
