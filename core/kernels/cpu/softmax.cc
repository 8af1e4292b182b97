#include "core/kernels/cpu/softmax.h"

#include <cmath>

#include "core/device/parallel.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kSoftmaxGrain = 8 * 1024;  // elements worth a thread

// row(offset of its first element) for each of the lines along `dim`.
template <typename Row>
void for_each_row(const Tensor& tensor, std::int64_t dim, std::int64_t& size, std::int64_t& step,
                  const Row& row) {
  size = tensor.size(dim);
  std::int64_t inner = 1;
  for (std::int64_t d = dim + 1; d < tensor.dim(); ++d) inner *= tensor.size(d);
  step = inner;
  const std::int64_t rows = tensor.numel() / size;
  parallel_for(rows, std::max<std::int64_t>(1, kSoftmaxGrain / size),
               [&, inner](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   row((r / inner) * size * inner + r % inner);
                 }
               });
}

template <bool kLog, typename T>
void forward(const Tensor& input, std::int64_t dim, const Tensor& out) {
  using M = OpMath<T>;
  const T* const in = input.data<T>();
  T* const to = out.data<T>();
  std::int64_t size = 0;
  std::int64_t step = 0;
  for_each_row(input, dim, size, step, [&](std::int64_t at) {
    const T* const x = in + at;
    T* const y = to + at;
    M largest = static_cast<M>(x[0]);
    for (std::int64_t i = 1; i < size; ++i) {
      const M value = static_cast<M>(x[i * step]);
      if (value > largest || value != value) largest = value;
    }
    double total = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const M e = std::exp(static_cast<M>(x[i * step]) - largest);
      if constexpr (!kLog) y[i * step] = static_cast<T>(e);
      total += static_cast<double>(e);
    }
    if constexpr (kLog) {
      // Two subtractions: a large maximum would round the logarithm away.
      const M log_total = static_cast<M>(std::log(total));
      for (std::int64_t i = 0; i < size; ++i) {
        y[i * step] = static_cast<T>(static_cast<M>(x[i * step]) - largest - log_total);
      }
    } else {
      const M scale = static_cast<M>(1.0 / total);
      for (std::int64_t i = 0; i < size; ++i) {
        y[i * step] = static_cast<T>(static_cast<M>(y[i * step]) * scale);
      }
    }
  });
}

// softmax:     dx = y (g - sum(g y))
// log_softmax: dx = g - e^y sum(g)
template <bool kLog, typename T>
void backward(const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out) {
  using M = OpMath<T>;
  const T* const gradient = grad.data<T>();
  const T* const result = output.data<T>();
  T* const to = out.data<T>();
  std::int64_t size = 0;
  std::int64_t step = 0;
  for_each_row(output, dim, size, step, [&](std::int64_t at) {
    const T* const g = gradient + at;
    const T* const y = result + at;
    double total = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const M value = static_cast<M>(g[i * step]);
      total += static_cast<double>(kLog ? value : value * static_cast<M>(y[i * step]));
    }
    const M sum = static_cast<M>(total);
    for (std::int64_t i = 0; i < size; ++i) {
      const M gi = static_cast<M>(g[i * step]);
      const M yi = static_cast<M>(y[i * step]);
      to[at + i * step] = static_cast<T>(kLog ? gi - std::exp(yi) * sum : yi * (gi - sum));
    }
  });
}

}  // namespace

void softmax(const Tensor& input, std::int64_t dim, const Tensor& out) {
  if (input.numel() == 0) return;
  visit_floating(input.dtype(), "softmax",
                 [&]<typename T>() { forward<false, T>(input, dim, out); });
}

void log_softmax(const Tensor& input, std::int64_t dim, const Tensor& out) {
  if (input.numel() == 0) return;
  visit_floating(input.dtype(), "log_softmax",
                 [&]<typename T>() { forward<true, T>(input, dim, out); });
}

void softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                      const Tensor& out) {
  if (grad.numel() == 0) return;
  visit_floating(grad.dtype(), "softmax",
                 [&]<typename T>() { backward<false, T>(grad, output, dim, out); });
}

void log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                          const Tensor& out) {
  if (grad.numel() == 0) return;
  visit_floating(grad.dtype(), "log_softmax",
                 [&]<typename T>() { backward<true, T>(grad, output, dim, out); });
}

}  // namespace dl::kernels::cpu
