// As on CPUs, probabilities are summed in float64. A block has a sample, whose steps follow each
// other; the gradients of all steps are computed at once. Sums have a fixed order.
#include <cmath>
#include <limits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/loss/class_loss_kernels.h"

namespace dl::kernels::cuda {
namespace {

// The logarithm of 0.
__device__ constexpr double never() {
  return -std::numeric_limits<double>::infinity();
}

__device__ inline double log_sum(double a, double b, double c) {
  const double largest = fmax(a, fmax(b, c));
  if (largest == never()) return a + b + c;  // NaN, if one is
  return log(exp(a - largest) + exp(b - largest) + exp(c - largest)) + largest;
}
struct AddLogarithms {
  __device__ double operator()(double a, double b) const { return log_sum(a, b, never()); }
};

// A sample: its labels with a blank before, between and after them.
struct CtcSample {
  __device__ CtcSample(const CtcOperands& operands, std::int64_t number)
      : in(operands),
        sample(number),
        steps(operands.lengths[number]),
        places(2 * operands.lengths[operands.samples + number] + 1),
        label(operands.labels + operands.lengths[2 * operands.samples + number]) {}

  __device__ std::int64_t class_at(std::int64_t place) const {
    return place % 2 == 0 ? in.blank : label[place / 2];
  }
  __device__ std::int64_t element(std::int64_t step, std::int64_t c) const {
    return (step * in.samples + sample) * in.classes + c;
  }
  __device__ double log_prob(std::int64_t step, std::int64_t place) const {
    return load_double(in.log_probs, in.dtype, element(step, class_at(place)));
  }
  // The first place of a step, in alpha and beta.
  __device__ std::int64_t row(std::int64_t step) const {
    return (sample * in.steps + step) * in.width;
  }
  // True if a path may skip the blank between `place` and the label two places later.
  __device__ bool skips(std::int64_t place) const {
    return place >= 0 && place + 2 < places && class_at(place) != class_at(place + 2);
  }

  const CtcOperands& in;
  std::int64_t sample;
  std::int64_t steps;
  std::int64_t places;
  const std::int64_t* label;
};

__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    ctc_alpha_kernel(CtcOperands in, double* alpha, double* losses) {
  const CtcSample s(in, blockIdx.x);
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  for (std::int64_t t = 0; t < s.steps; ++t) {
    double* const now = alpha + s.row(t);
    for (std::int64_t p = thread; p < s.places; p += kGroupThreads) {
      double paths = p < 2 ? 0 : never();
      if (t > 0) {
        const double* const before = alpha + s.row(t - 1);
        paths = log_sum(before[p], p > 0 ? before[p - 1] : never(),
                        s.skips(p - 2) ? before[p - 2] : never());
      }
      now[p] = paths + s.log_prob(t, p);
    }
    __syncthreads();
  }
  if (thread != 0) return;
  if (s.steps == 0) {
    losses[s.sample] = s.places == 1 ? 0 : -never();
    return;
  }
  const double* const last = alpha + s.row(s.steps - 1);
  losses[s.sample] =
      -log_sum(last[s.places - 1], s.places > 1 ? last[s.places - 2] : never(), never());
}

__global__ void __launch_bounds__(kGroupThreads) ctc_beta_kernel(CtcOperands in, double* beta) {
  const CtcSample s(in, blockIdx.x);
  for (std::int64_t t = s.steps - 1; t >= 0; --t) {
    double* const now = beta + s.row(t);
    for (auto p = static_cast<std::int64_t>(threadIdx.x); p < s.places; p += kGroupThreads) {
      double rest = 0;
      if (t + 1 < s.steps) {
        const double* const after = beta + s.row(t + 1);
        rest = log_sum(after[p], p + 1 < s.places ? after[p + 1] : never(),
                       s.skips(p) ? after[p + 2] : never());
      } else if (p + 2 < s.places) {
        rest = never();
      }
      now[p] = rest + s.log_prob(t, p);
    }
    __syncthreads();
  }
}

// A block has a step of a sample. The paths through the blank are summed by all threads; those
// through another class by the thread of its first place.
template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    ctc_gradient_kernel(CtcOperands in, const void* grad, const double* alpha, const double* losses,
                        const double* beta, bool zero_infinity, void* d) {
  __shared__ double shared[kGroupThreads];
  const CtcSample s(in, blockIdx.x % in.samples);
  const std::int64_t t = blockIdx.x / in.samples;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  const double loss = losses[s.sample];
  const bool is_zero = t >= s.steps || (zero_infinity && loss == -never());
  if (is_zero) {  // the same in all threads
    for (std::int64_t c = thread; c < in.classes; c += kGroupThreads) {
      store_as<M>(d, in.dtype, s.element(t, c), M(0));
    }
    return;
  }
  const double scale = load_double(grad, in.dtype, s.sample);
  const auto paths_at = [&](std::int64_t p) { return alpha[s.row(t) + p] + beta[s.row(t) + p]; };
  const auto write = [&](std::int64_t c, double paths) {
    const std::int64_t at = s.element(t, c);
    const double x = load_double(in.log_probs, in.dtype, at);
    store_double(d, in.dtype, at, (exp(x) - exp(paths + loss - x)) * scale);
  };
  double blanks = never();
  for (std::int64_t p = thread; p < s.places; p += kGroupThreads) {
    if (s.class_at(p) == in.blank) blanks = log_sum(blanks, paths_at(p), never());
  }
  blanks = Lines{}.combine(blanks, shared, AddLogarithms());
  for (std::int64_t c = thread; c < in.classes; c += kGroupThreads) {
    write(c, c == in.blank ? blanks : never());
  }
  __syncthreads();
  for (std::int64_t p = 2 * thread + 1; p < s.places; p += 2 * kGroupThreads) {
    const std::int64_t c = s.class_at(p);
    bool is_first = c != in.blank;
    for (std::int64_t q = 1; is_first && q < p; q += 2) is_first = s.class_at(q) != c;
    if (!is_first) continue;
    double paths = never();
    for (std::int64_t q = p; q < s.places; q += 2) {
      if (s.class_at(q) == c) paths = log_sum(paths, paths_at(q), never());
    }
    write(c, paths);
  }
}

}  // namespace

void ctc_loss_launch(const CtcOperands& in, double* alpha, double* losses, cudaStream_t stream) {
  ctc_alpha_kernel<<<static_cast<unsigned>(in.samples), kGroupThreads, 0, stream>>>(in, alpha,
                                                                                    losses);
}

void ctc_loss_gradient_launch(const CtcOperands& in, const void* grad, const double* alpha,
                              const double* losses, double* beta, bool zero_infinity, void* d,
                              cudaStream_t stream) {
  ctc_beta_kernel<<<static_cast<unsigned>(in.samples), kGroupThreads, 0, stream>>>(in, beta);
  with_arithmetic(in.dtype, [&]<typename M>() {
    ctc_gradient_kernel<M>
        <<<static_cast<unsigned>(in.steps * in.samples), kGroupThreads, 0, stream>>>(
            in, grad, alpha, losses, beta, zero_infinity, d);
  });
}

}  // namespace dl::kernels::cuda
