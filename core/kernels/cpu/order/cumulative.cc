// Cumulative sums and products.
#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/kernels/cpu/order/lines.h"
#include "core/kernels/declared/order.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kCumsumGrain = 16 * 1024;  // elements worth a thread

// Integers wrap around.
template <typename A>
A plus(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    return a + b;
  } else {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}
template <typename A>
A times(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    return a * b;
  } else {
    return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}

// Replaces a block by its cumulative sums, beginning with `total`. Computes four at a time, so that
// each four wait for one addition only.
template <typename A>
void run_sums(A* block, std::int64_t count, A& total) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    A* const x = block + i;
    const A two = plus(x[0], x[1]);
    const A three = plus(two, x[2]);
    const A four = plus(two, plus(x[2], x[3]));
    x[0] = plus(total, x[0]);
    x[1] = plus(total, two);
    x[2] = plus(total, three);
    x[3] = plus(total, four);
    total = x[3];
  }
  for (; i < count; ++i) {
    total = plus(total, block[i]);
    block[i] = total;
  }
}

template <typename A>
struct RunningSum {
  static constexpr A kStart{0};
  static A of(A a, A b) { return plus(a, b); }
  static void run(A* block, std::int64_t count, A& total) { run_sums(block, count, total); }
};
// Multiplies in sequence: a product of some of the factors may overflow although that of all
// factors does not.
template <typename A>
struct RunningProduct {
  static constexpr A kStart{1};
  static A of(A a, A b) { return times(a, b); }
  static void run(A* block, std::int64_t count, A& total) {
    for (std::int64_t i = 0; i < count; ++i) block[i] = total = times(total, block[i]);
  }
};

template <typename A, typename Running>
void accumulate_in(DType compute_dtype, const Tensor& input, std::int64_t dim, bool reverse,
                   const Tensor& out) {
  const Load load = load_as(input.dtype(), compute_dtype);
  const Store store = store_from(compute_dtype, out.dtype());
  const auto width = static_cast<std::int64_t>(size_of(input.dtype()));
  const auto out_width = static_cast<std::int64_t>(size_of(out.dtype()));
  const auto* const from = static_cast<const char*>(input.data_ptr());
  auto* const to = static_cast<char*>(out.data_ptr());
  const std::int64_t size = input.size(dim);
  const std::int64_t step = input.stride(dim);
  const std::int64_t out_step = out.stride(dim);
  const auto lines = lines_of<2>(input.sizes(), {out.strides(), input.strides()}, dim);
  const std::int64_t grain = std::max<std::int64_t>(1, kCumsumGrain / size);
  parallel_for(lines.count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<A, kBlock> block;
    std::array<A, kBlock> totals;
    walk(lines, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      if (lines.inner_stride(1) == 1 && length > 1) {
        // Interleaved lines: row by row.
        for (std::int64_t first = 0; first < length; first += kBlock) {
          const std::int64_t columns = std::min(kBlock, length - first);
          totals.fill(Running::kStart);
          for (std::int64_t i = 0; i < size; ++i) {
            const std::int64_t row = reverse ? size - 1 - i : i;
            load(from + (at[1] + first + row * step) * width, 1, block.data(), columns);
            for (std::int64_t c = 0; c < columns; ++c) {
              const auto k = static_cast<std::size_t>(c);
              totals[k] = Running::of(totals[k], block[k]);
            }
            store(totals.data(),
                  to + (at[0] + first * lines.inner_stride(0) + row * out_step) * out_width,
                  lines.inner_stride(0), columns);
          }
        }
        return;
      }
      for (std::int64_t line = 0; line < length; ++line) {
        const std::int64_t in = at[1] + line * lines.inner_stride(1);
        const std::int64_t result = at[0] + line * lines.inner_stride(0);
        A total = Running::kStart;
        for (std::int64_t i = 0; i < size; i += kBlock) {
          const std::int64_t count = std::min(kBlock, size - i);
          const std::int64_t first = reverse ? size - i - count : i;
          load(from + (in + first * step) * width, step, block.data(), count);
          if (reverse) std::reverse(block.begin(), block.begin() + count);
          Running::run(block.data(), count, total);
          if (reverse) std::reverse(block.begin(), block.begin() + count);
          store(block.data(), to + (result + first * out_step) * out_width, out_step, count);
        }
      }
    });
  });
}

}  // namespace

void cumsum(const Tensor& input, std::int64_t dim, bool reverse, const Tensor& out) {
  if (out.numel() == 0) return;
  if (is_floating(input.dtype())) {
    return accumulate_in<double, RunningSum<double>>(DType::kF64, input, dim, reverse, out);
  }
  accumulate_in<std::int64_t, RunningSum<std::int64_t>>(DType::kI64, input, dim, reverse, out);
}

void cumprod(const Tensor& input, std::int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  if (is_floating(input.dtype())) {
    return accumulate_in<double, RunningProduct<double>>(DType::kF64, input, dim, false, out);
  }
  accumulate_in<std::int64_t, RunningProduct<std::int64_t>>(DType::kI64, input, dim, false, out);
}

// The gradient of input[k] is the product of all before it times s[k] = grad[k] + input[k + 1]
// s[k + 1], which never divides by an element, which may be 0.
void cumprod_backward(const Tensor& grad, const Tensor& input, std::int64_t dim,
                      const Tensor& out) {
  if (out.numel() == 0) return;
  const Load load = load_as(input.dtype(), DType::kF64);
  const Load load_grad = load_as(grad.dtype(), DType::kF64);
  const Store store = store_from(DType::kF64, out.dtype());
  const auto at_element = [](const Tensor& tensor, std::int64_t offset) {
    return static_cast<char*>(tensor.data_ptr()) +
           offset * static_cast<std::int64_t>(size_of(tensor.dtype()));
  };
  const std::int64_t size = input.size(dim);
  const auto lines =
      lines_of<3>(input.sizes(), {out.strides(), input.strides(), grad.strides()}, dim);
  const std::int64_t grain = std::max<std::int64_t>(1, kCumsumGrain / size);
  parallel_for(lines.count, grain, [&](std::int64_t begin, std::int64_t end) {
    const auto width = static_cast<std::size_t>(size);
    std::vector<double> x(width);
    std::vector<double> g(width);
    walk(lines, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t line = 0; line < length; ++line) {
        load(at_element(input, at[1] + line * lines.inner_stride(1)), input.stride(dim), x.data(),
             size);
        load_grad(at_element(grad, at[2] + line * lines.inner_stride(2)), grad.stride(dim),
                  g.data(), size);
        for (std::size_t k = width - 1; k-- > 0;) g[k] += x[k + 1] * g[k + 1];
        double before = 1;
        for (std::size_t k = 0; k < width; ++k) {
          g[k] *= before;
          before *= x[k];
        }
        store(g.data(), at_element(out, at[0] + line * lines.inner_stride(0)), out.stride(dim),
              size);
      }
    });
  });
}

}  // namespace dl::kernels::cpu
