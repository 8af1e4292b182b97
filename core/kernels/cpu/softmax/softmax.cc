#include "core/kernels/declared/softmax.h"

#include <algorithm>
#include <cmath>

#include "core/device/parallel.h"
#include "core/kernels/cpu/softmax/softmax_rows.h"
#include "core/kernels/declared/elementwise.h"
#include "core/tensor/factories.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kSoftmaxGrain = 8 * 1024;  // elements worth a thread
constexpr std::int64_t kCached = 32 * 1024;  // elements that are still in the cache when read again

// The lines along a dimension of a dense tensor.
struct Lines {
  Lines(const Tensor& tensor, std::int64_t dim) : size(tensor.size(dim)) {
    for (std::int64_t d = dim + 1; d < tensor.dim(); ++d) step *= tensor.size(d);
    count = tensor.numel() / size;
  }
  std::int64_t first_of(std::int64_t line) const { return line / step * size * step + line % step; }

  std::int64_t size;
  std::int64_t step = 1;  // from one element of a line to the next
  std::int64_t count;
};

// Calls behind(first element, lines) for consecutive lines with adjacent elements, or
// side_by_side(first element, lines) for interleaved lines.
template <typename Behind, typename SideBySide>
void for_lines(const Lines& lines, const Behind& behind, const SideBySide& side_by_side) {
  const std::int64_t most =
      std::clamp<std::int64_t>(kCached / lines.size / 16 * 16, 16, kSoftmaxColumns);
  const std::int64_t grain = std::max<std::int64_t>(1, kSoftmaxGrain / lines.size);
  parallel_for(lines.count, grain, [&](std::int64_t begin, std::int64_t end) {
    if (lines.step == 1) return behind(begin * lines.size, end - begin);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t neighbours = std::min({most, end - i, lines.step - i % lines.step});
      side_by_side(lines.first_of(i), neighbours);
      i += neighbours;
    }
  });
}

template <typename One>
void for_each_line(const Lines& lines, const One& one) {
  parallel_for(lines.count, std::max<std::int64_t>(1, kSoftmaxGrain / lines.size),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) one(lines.first_of(i));
               });
}

void forward_floats(bool is_log, const Tensor& input, std::int64_t dim, const Tensor& out) {
  const Lines lines(input, dim);
  const auto* const in = input.data<float>();
  auto* const to = out.data<float>();
  for_lines(
      lines,
      [&](std::int64_t at, std::int64_t count) {
        softmax_lines(is_log, in + at, to + at, lines.size, count);
      },
      [&](std::int64_t at, std::int64_t columns) {
        softmax_columns(is_log, in + at, to + at, lines.size, lines.step, columns);
      });
}

void backward_floats(bool is_log, const Tensor& grad, const Tensor& output, std::int64_t dim,
                     const Tensor& out) {
  const Lines lines(output, dim);
  const auto* const g = grad.data<float>();
  const auto* const y = output.data<float>();
  auto* const to = out.data<float>();
  for_lines(
      lines,
      [&](std::int64_t at, std::int64_t count) {
        softmax_lines_backward(is_log, g + at, y + at, to + at, lines.size, count);
      },
      [&](std::int64_t at, std::int64_t columns) {
        softmax_columns_backward(is_log, g + at, y + at, to + at, lines.size, lines.step, columns);
      });
}

void forward_doubles(bool is_log, const Tensor& input, std::int64_t dim, const Tensor& out) {
  const Lines lines(input, dim);
  const auto* const in = input.data<double>();
  auto* const to = out.data<double>();
  const auto one = [&](std::int64_t at) {
    const double* const x = in + at;
    double* const y = to + at;
    double largest = x[0];
    for (std::int64_t i = 1; i < lines.size; ++i) {
      const double value = x[i * lines.step];
      if (value > largest || value != value) largest = value;
    }
    double total = 0;
    for (std::int64_t i = 0; i < lines.size; ++i) {
      const double e = std::exp(x[i * lines.step] - largest);
      y[i * lines.step] = e;
      total += e;
    }
    const double log_total = std::log(total);
    for (std::int64_t i = 0; i < lines.size; ++i) {
      double& result = y[i * lines.step];
      result = is_log ? x[i * lines.step] - largest - log_total : result / total;
    }
  };
  for_each_line(lines, one);
}

// softmax:     dx = y (g - sum(g y))
// log_softmax: dx = g - e^y sum(g)
void backward_doubles(bool is_log, const Tensor& grad, const Tensor& output, std::int64_t dim,
                      const Tensor& out) {
  const Lines lines(output, dim);
  const auto* const g = grad.data<double>();
  const auto* const y = output.data<double>();
  auto* const to = out.data<double>();
  const auto one = [&](std::int64_t at) {
    double total = 0;
    for (std::int64_t i = 0; i < lines.size; ++i) {
      const std::int64_t k = at + i * lines.step;
      total += is_log ? g[k] : g[k] * y[k];
    }
    for (std::int64_t i = 0; i < lines.size; ++i) {
      const std::int64_t k = at + i * lines.step;
      to[k] = is_log ? g[k] - std::exp(y[k]) * total : y[k] * (g[k] - total);
    }
  };
  for_each_line(lines, one);
}

Tensor as_floats(const Tensor& tensor) {
  Tensor result = empty(tensor.sizes(), {.dtype = DType::kF32});
  copy(tensor, result);
  return result;
}

// float16 and bfloat16 are computed in float32.
void forward(bool is_log, const Tensor& input, std::int64_t dim, const Tensor& out) {
  if (input.numel() == 0) return;
  if (input.dtype() == DType::kF32) return forward_floats(is_log, input, dim, out);
  if (input.dtype() == DType::kF64) return forward_doubles(is_log, input, dim, out);
  const Tensor floats = as_floats(input);
  const Tensor result = empty(input.sizes(), {.dtype = DType::kF32});
  forward_floats(is_log, floats, dim, result);
  copy(result, out);
}

void backward(bool is_log, const Tensor& grad, const Tensor& output, std::int64_t dim,
              const Tensor& out) {
  if (grad.numel() == 0) return;
  if (grad.dtype() == DType::kF32) return backward_floats(is_log, grad, output, dim, out);
  if (grad.dtype() == DType::kF64) return backward_doubles(is_log, grad, output, dim, out);
  const Tensor result = empty(grad.sizes(), {.dtype = DType::kF32});
  backward_floats(is_log, as_floats(grad), as_floats(output), dim, result);
  copy(result, out);
}

}  // namespace

void softmax(const Tensor& input, std::int64_t dim, const Tensor& out) {
  forward(false, input, dim, out);
}

void log_softmax(const Tensor& input, std::int64_t dim, const Tensor& out) {
  forward(true, input, dim, out);
}

void softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                      const Tensor& out) {
  backward(false, grad, output, dim, out);
}

void log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                          const Tensor& out) {
  backward(true, grad, output, dim, out);
}

}  // namespace dl::kernels::cpu
