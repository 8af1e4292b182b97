#include "core/kernels/cpu/reduce.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/carrier.h"
#include "core/kernels/cpu/copy.h"
#include "core/kernels/strided_loop.h"
#include "core/tensor/factories.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kReduceGrain = 32 * 1024;  // elements read, worth a thread
constexpr std::int64_t kChunk = 64 * 1024;  // of one long sum; fixed, so that threads change no bit
constexpr std::int64_t kColumns = 64;       // sums that are carried at once

template <typename T>
using Accumulator =
    std::conditional_t<std::is_floating_point_v<T> || kIsReduced<T>, double,
                       std::conditional_t<std::is_unsigned_v<T>, std::uint64_t, std::int64_t>>;

// Integers wrap around.
template <typename A>
A wrapping_add(A a, A b) {
  if constexpr (std::is_same_v<A, std::int64_t>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

// Sixteen independent sums hide the latency of an addition and fill the vector units.
template <typename A, typename T>
A sum_run(const T* in, std::int64_t length, std::int64_t step) {
  A total{};
  std::int64_t i = 0;
  if (step == 1) {
    std::array<A, 16> lanes{};
    for (; i + 16 <= length; i += 16) {
      for (std::size_t k = 0; k < 16; ++k) {
        lanes[k] = wrapping_add(lanes[k], static_cast<A>(in[static_cast<std::size_t>(i) + k]));
      }
    }
    for (const A lane : lanes) total = wrapping_add(total, lane);
  }
  for (; i < length; ++i) total = wrapping_add(total, static_cast<A>(in[i * step]));
  return total;
}

template <typename A, typename T>
A sum_range(const StridedLoop<1>& loop, const T* in, std::int64_t begin, std::int64_t end) {
  A total{};
  walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
    total = wrapping_add(total, sum_run<A>(in + at[0], length, loop.inner_stride(0)));
  });
  return total;
}

template <typename T>
T divided(Accumulator<T> total, double divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(total / divisor);
  } else {
    return total;
  }
}

// The dimensions of a reduction, parted.
struct Parted {
  StridedLoop<2> kept;     // out, in
  StridedLoop<1> reduced;  // in
};

Parted part(const Tensor& input, const Tensor& out) {
  Shape kept;
  Shape reduced;
  std::array<Strides, 2> kept_strides;
  std::array<Strides, 1> reduced_strides;
  for (std::size_t d = 0; d < input.sizes().size(); ++d) {
    if (input.sizes()[d] != out.sizes()[d]) {
      reduced.push_back(input.sizes()[d]);
      reduced_strides[0].push_back(input.strides()[d]);
    } else {
      kept.push_back(input.sizes()[d]);
      kept_strides[0].push_back(out.strides()[d]);
      kept_strides[1].push_back(input.strides()[d]);
    }
  }
  return {make_loop<2>(kept, kept_strides), make_loop<1>(reduced, reduced_strides)};
}

// One result: chunks side by side, then their sums in order.
template <typename A, typename T>
A sum_all(const StridedLoop<1>& loop, const T* in) {
  const std::int64_t chunks = (loop.count + kChunk - 1) / kChunk;
  if (chunks <= 1) return sum_range<A>(loop, in, 0, loop.count);
  std::vector<A> sums(static_cast<std::size_t>(chunks));
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      sums[static_cast<std::size_t>(c)] =
          sum_range<A>(loop, in, c * kChunk, std::min(loop.count, (c + 1) * kChunk));
    }
  });
  A total{};
  for (const A chunk : sums) total = wrapping_add(total, chunk);
  return total;
}

// Neighbouring results lie side by side in memory: carries kColumns sums down the reduced
// dimensions.
template <typename T>
void sum_columns(const Parted& parts, const T* in, T* out, double divisor) {
  using A = Accumulator<T>;
  const std::int64_t out_step = parts.kept.inner_stride(0);
  const std::int64_t grain = std::max<std::int64_t>(
      kColumns, kReduceGrain / std::max<std::int64_t>(1, parts.reduced.count));
  parallel_for(parts.kept.count, grain, [&](std::int64_t begin, std::int64_t end) {
    walk(parts.kept, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t first = 0; first < length; first += kColumns) {
        const std::int64_t columns = std::min(kColumns, length - first);
        std::array<A, kColumns> sums{};
        const T* const from = in + at[1] + first;
        walk(parts.reduced, 0, parts.reduced.count,
             [&](const std::int64_t* row, std::int64_t rows) {
               for (std::int64_t r = 0; r < rows; ++r) {
                 const T* const x = from + row[0] + r * parts.reduced.inner_stride(0);
                 for (std::int64_t c = 0; c < columns; ++c) {
                   const auto k = static_cast<std::size_t>(c);
                   sums[k] = wrapping_add(sums[k], static_cast<A>(x[c]));
                 }
               }
             });
        for (std::int64_t c = 0; c < columns; ++c) {
          out[at[0] + (first + c) * out_step] =
              divided<T>(sums[static_cast<std::size_t>(c)], divisor);
        }
      }
    });
  });
}

template <typename T>
void sum_typed(const Tensor& input, const Tensor& output, double divisor) {
  using A = Accumulator<T>;
  const T* const in = input.data<T>();
  T* const out = output.data<T>();
  const Parted parts = part(input, output);
  if (parts.kept.count == 1) {
    *out = divided<T>(sum_all<A>(parts.reduced, in), divisor);
    return;
  }
  if (parts.kept.inner_stride(1) == 1 && parts.kept.inner_size() > 1 &&
      parts.reduced.inner_stride(0) != 1) {
    sum_columns(parts, in, out, divisor);
    return;
  }
  const std::int64_t grain =
      std::max<std::int64_t>(1, kReduceGrain / std::max<std::int64_t>(1, parts.reduced.count));
  parallel_for(parts.kept.count, grain, [&](std::int64_t begin, std::int64_t end) {
    walk(parts.kept, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        const T* const from = in + at[1] + i * parts.kept.inner_stride(1);
        out[at[0] + i * parts.kept.inner_stride(0)] =
            divided<T>(sum_range<A>(parts.reduced, from, 0, parts.reduced.count), divisor);
      }
    });
  });
}

template <typename T>
bool beats(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a > b || (a != a && b == b);
  } else {
    return a > b;
  }
}

template <typename T>
void max_typed(const Tensor& input, std::int64_t dim, const Tensor& values, const Tensor& indices) {
  const std::int64_t size = input.size(dim);
  const std::int64_t step = input.stride(dim);
  const T* const in = input.data<T>();
  T* const best = values.data<T>();
  std::int64_t* const where = indices.data<std::int64_t>();
  const Shape& shape = values.sizes();
  const auto loop = make_loop<3>(shape, {values.strides(), indices.strides(),
                                         broadcast_strides(shape, input.strides(), shape)});
  const std::int64_t grain = std::max<std::int64_t>(1, kReduceGrain / size);
  parallel_for(loop.count, grain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        const T* const from = in + at[2] + i * loop.inner_stride(2);
        std::int64_t found = 0;
        for (std::int64_t k = 1; k < size; ++k) {
          if (beats(from[k * step], from[found * step])) found = k;
        }
        best[at[0] + i * loop.inner_stride(0)] = from[found * step];
        where[at[1] + i * loop.inner_stride(1)] = found;
      }
    });
  });
}

// The rarer dtypes are reduced as float64 or int64.
Tensor carried(const Tensor& tensor) {
  Tensor result = empty(tensor.sizes(), {.dtype = carrier_of(tensor.dtype())});
  copy(tensor, result);
  return result;
}

bool is_reduced_directly(DType dtype) noexcept {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64;
}

}  // namespace

void sum(const Tensor& input, double divisor, const Tensor& out) {
  if (out.numel() == 0) return;
  if (!is_reduced_directly(input.dtype())) {
    const Tensor total = empty(out.sizes(), {.dtype = carrier_of(input.dtype())});
    sum(carried(input), divisor, total);
    copy(total, out);
    return;
  }
  if (input.dtype() == DType::kF32) return sum_typed<float>(input, out, divisor);
  if (input.dtype() == DType::kF64) return sum_typed<double>(input, out, divisor);
  sum_typed<std::int64_t>(input, out, divisor);
}

void max(const Tensor& input, std::int64_t dim, const Tensor& values, const Tensor& indices) {
  if (values.numel() == 0) return;
  if (input.dtype() == DType::kU64)
    refuse_dtype("max", input.dtype(), "a smaller or signed integer");
  if (!is_reduced_directly(input.dtype())) {
    const Tensor best = empty(values.sizes(), {.dtype = carrier_of(input.dtype())});
    max(carried(input), dim, best, indices);
    copy(best, values);
    return;
  }
  if (input.dtype() == DType::kF32) return max_typed<float>(input, dim, values, indices);
  if (input.dtype() == DType::kF64) return max_typed<double>(input, dim, values, indices);
  max_typed<std::int64_t>(input, dim, values, indices);
}

void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out) {
  if (grad.numel() == 0) return;
  const std::int64_t step = out.stride(dim);
  visit_floating(grad.dtype(), "max", [&]<typename T>() {
    const T* const from = grad.data<T>();
    const std::int64_t* const where = indices.data<std::int64_t>();
    T* const to = out.data<T>();
    const auto loop =
        make_loop<3>(grad.sizes(), {out.strides(), grad.strides(), indices.strides()});
    walk(loop, 0, loop.count, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t index = where[at[2] + i * loop.inner_stride(2)];
        to[at[0] + i * loop.inner_stride(0) + index * step] =
            from[at[1] + i * loop.inner_stride(1)];
      }
    });
  });
}

}  // namespace dl::kernels::cpu
