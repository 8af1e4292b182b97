#include <type_traits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/reduce/reduce_kernels.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cuda {
namespace {

// Totals of compute type M.
template <typename M>
using Total = std::conditional_t<std::is_floating_point_v<M>, double, M>;

constexpr int kMerged = 16;  // elements of a thread that are merged in the compute type

// The formulas of a row, chosen at run time: all threads take the same branch.
struct AnyRow {
  ReduceFn fn;

  template <typename N>
  __device__ N identity() const {
    return visit<N>([&]<typename F>() { return F::template identity<N>(); });
  }
  template <typename N>
  __device__ N term(N x, const reductions::TermArgs<N>& args) const {
    return visit<N>([&]<typename F>() { return F::term(x, args); });
  }
  template <typename N>
  __device__ N merge(N a, N b) const {
    return visit<N>([&]<typename F>() { return F::merge(a, b); });
  }

 private:
  template <typename N>
  static constexpr bool has(ReduceFn fn) {
    return std::is_floating_point_v<N> || computes_integers(facts(fn).takes);
  }
  template <typename N, typename Visitor>
  __device__ N visit(const Visitor& visitor) const {
    switch (fn) {
#define DL_REDUCTION_FN(enumerator, name, Formula, ...)                              \
  case ReduceFn::enumerator:                                                         \
    if constexpr (has<N>(ReduceFn::enumerator)) {                                    \
      return visitor.template operator()<reductions::LoopOf<reductions::Formula>>(); \
    }                                                                                \
    break;
#include "core/reductions/list.def"
    }
    return N(0);
  }
};

// A row whose kernel is compiled for it.
template <typename F>
struct OneRow {
  template <typename N>
  __device__ N identity() const {
    return F::template identity<N>();
  }
  template <typename N>
  __device__ N term(N x, const reductions::TermArgs<N>& args) const {
    return F::term(x, args);
  }
  template <typename N>
  __device__ N merge(N a, N b) const {
    return F::merge(a, b);
  }
};

__device__ inline double finished(const ReduceArgs& args, double total, std::int64_t result) {
  const double pivot = args.pivots == nullptr ? 0 : args.pivots[result];
  const reductions::FinishArgs by{static_cast<double>(args.reduced.count), pivot, args.p};
  switch (args.fn) {
#define DL_REDUCTION_FN(enumerator, name, Formula, ...) \
  case ReduceFn::enumerator:                            \
    return reductions::Formula::finish(total, by);
#include "core/reductions/list.def"
  }
  return total;
}

template <typename M>
__device__ void store_result(const ReduceArgs& args, std::int64_t result, std::int64_t at,
                             Total<M> total) {
  if constexpr (std::is_floating_point_v<M>) {
    const double value = finished(args, total, result);
    if (args.out == nullptr) {
      // An infinite largest element would make NaN of itself.
      const bool is_infinite = value == value && !isfinite(value);
      args.numbered_out[result] = args.fn == ReduceFn::kAmax && is_infinite ? 0 : value;
      return;
    }
    if (args.out_dtype == args.dtype) {
      M rounded = static_cast<M>(value);
      if (args.accumulate) rounded += load_as<M>(args.out, args.dtype, at);
      return store_as<M>(args.out, args.dtype, at, rounded);
    }
    store_as<std::int64_t>(args.out, args.out_dtype, at, static_cast<std::int64_t>(value));
  } else {
    store_as<M>(args.out, args.out_dtype, at, total);
  }
}

// The total of one thread over elements begin + lane, begin + lane + lanes, ... of a result.
template <typename M, typename Row>
__device__ Total<M> total_of(const ReduceArgs& args, const Row& row, std::int64_t begin,
                             std::int64_t end, std::int64_t first,
                             const reductions::TermArgs<NumberOf<M>>& by) {
  using N = NumberOf<M>;
  using T = NumberOf<Total<M>>;
  T total = row.template identity<T>();
  std::int64_t i = begin + args.lines.lane();
  if constexpr (std::is_floating_point_v<M>) {
    if (args.in_fours) {
      const std::int64_t whole = begin + (end - begin) / 4 * 4;
      std::int64_t four = begin + std::int64_t{4} * args.lines.lane();
      while (four < whole) {
        M block = row.template identity<M>();
        for (int k = 0; k < kMerged / 4 && four < whole; ++k, four += 4 * args.lines.lanes) {
          M values[4];
          load_four_as<M>(args.in, args.dtype, first + four, values);
          // The values move, so that they stay in registers if the loop is not unrolled.
          for (int left = 4; left > 0; --left) {
            block = row.merge(block, row.term(values[0], by));
            for (int i = 0; i < 3; ++i) values[i] = values[i + 1];
          }
        }
        total = row.merge(total, static_cast<double>(block));
      }
      i = whole + args.lines.lane();
    }
  }
  while (i < end) {
    N block = row.template identity<N>();
    for (int k = 0; k < kMerged && i < end; ++k, i += args.lines.lanes) {
      const std::int64_t at = first + args.reduced(static_cast<std::uint32_t>(i)).at[0];
      block = row.merge(block, row.term(N(load_as<M>(args.in, args.dtype, at)), by));
    }
    total = row.merge(total, T(element_of(block)));
  }
  return element_of(total);
}

template <typename M, typename Row>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    reduce_kernel(ReduceArgs args, Row row) {
  using T = NumberOf<Total<M>>;
  __shared__ Total<M> shared[kGroupThreads];
  const std::int64_t result =
      static_cast<std::int64_t>(blockIdx.x) * args.lines.lines() + args.lines.line();
  const bool present = result < args.kept.count;
  const Offsets<2> kept = present ? args.kept(static_cast<std::uint32_t>(result)) : Offsets<2>{};
  // Fours stay whole, but for the last.
  const std::int64_t fours = (static_cast<std::int64_t>(args.reduced.count) + 3) / 4;
  const auto cut = [&](std::int64_t part) {
    const std::int64_t at = fours * part / args.parts * 4;
    return at < args.reduced.count ? at : args.reduced.count;
  };
  Total<M> total = element_of(row.template identity<T>());
  if (present) {
    reductions::TermArgs<NumberOf<M>> by{NumberOf<M>(0), NumberOf<M>(0)};
    if constexpr (std::is_floating_point_v<M>) {
      by.p = static_cast<M>(args.p);
      if (args.pivots != nullptr) by.pivot = static_cast<M>(args.pivots[result]);
    }
    total = total_of<M>(args, row, cut(blockIdx.y), cut(blockIdx.y + 1), kept.at[1], by);
  }
  total = args.lines.combine(
      total, shared, [&](Total<M> a, Total<M> b) { return element_of(row.merge(T(a), T(b))); });
  if (!present || args.lines.lane() != 0) return;
  if (args.parts > 1) {
    static_cast<Total<M>*>(args.partial)[blockIdx.y * std::int64_t{args.kept.count} + result] =
        total;
  } else {
    store_result<M>(args, result, kept.at[0], total);
  }
}

template <typename M, typename Row>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    parts_kernel(ReduceArgs args, Lines lines, Row row) {
  using T = NumberOf<Total<M>>;
  __shared__ Total<M> shared[kGroupThreads];
  const std::int64_t result = result_of_group(lines);
  const bool present = result < args.kept.count;
  const auto* const partial = static_cast<const Total<M>*>(args.partial);
  const Total<M> total = joined_parts(
      lines, present ? args.parts : 0, element_of(row.template identity<T>()), shared,
      [&](std::uint32_t part) { return partial[std::int64_t{part} * args.kept.count + result]; },
      [&](Total<M> a, Total<M> b) { return element_of(row.merge(T(a), T(b))); });
  if (!present || lines.lane() != 0) return;
  store_result<M>(args, result, args.kept(static_cast<std::uint32_t>(result)).at[0], total);
}

template <typename M>
struct Best {
  M value;
  std::int64_t index;  // -1: none
};

template <typename M>
__device__ bool beats(ExtremeFn fn, M a, M b) {
  const bool is_further = fn == ExtremeFn::kMax ? a > b : a < b;
  return is_further || (a != a && b == b);
}

template <typename M>
__device__ Best<M> better(ExtremeFn fn, const Best<M>& a, const Best<M>& b) {
  if (b.index < 0) return a;
  if (a.index < 0 || beats(fn, b.value, a.value)) return b;
  if (beats(fn, a.value, b.value)) return a;
  return a.index < b.index ? a : b;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads) extreme_kernel(ExtremeArgs args) {
  __shared__ Best<M> shared[kGroupThreads];
  const std::int64_t result =
      static_cast<std::int64_t>(blockIdx.x) * args.lines.lines() + args.lines.line();
  const bool present = result < args.kept.count;
  const Offsets<3> kept = present ? args.kept(static_cast<std::uint32_t>(result)) : Offsets<3>{};
  Best<M> best{M(0), -1};
  if (present) {
    for (std::int64_t i = args.lines.lane(); i < args.size; i += args.lines.lanes) {
      best =
          better(args.fn, best, {load_as<M>(args.in, args.dtype, kept.at[2] + i * args.step), i});
    }
  }
  best = args.lines.combine(
      best, shared, [&](const Best<M>& a, const Best<M>& b) { return better(args.fn, a, b); });
  if (!present || args.lines.lane() != 0) return;
  store_as<M>(args.values, args.dtype, kept.at[0], best.value);
  args.indices[kept.at[1]] = best.index;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    square_kernel(DType dtype, const void* a, const void* b, std::int64_t count, double* partial) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x;
       i < count; i += static_cast<std::int64_t>(gridDim.x) * kGroupThreads) {
    const M difference = load_as<M>(a, dtype, i) - load_as<M>(b, dtype, i);
    total += static_cast<double>(difference) * static_cast<double>(difference);
  }
  total = Lines{}.combine(total, shared, [](double x, double y) { return x + y; });
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    square_parts_kernel(DType dtype, const double* partial, std::int64_t count, void* out) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kSquareParts; i += kGroupThreads) {
    total += partial[i];
  }
  total = Lines{}.combine(total, shared, [](double x, double y) { return x + y; });
  if (threadIdx.x == 0) {
    store_as<M>(out, dtype, 0, static_cast<M>(total / static_cast<double>(count)));
  }
}

template <typename M, typename Row>
void launch_row(const ReduceArgs& args, const Row& row, cudaStream_t stream) {
  const auto lines = static_cast<std::uint32_t>(args.lines.lines());
  const dim3 grid((args.kept.count + lines - 1) / lines, args.parts);
  reduce_kernel<M, Row><<<grid, kGroupThreads, 0, stream>>>(args, row);
  if (args.parts > 1) {
    const Lines of_parts = lines_for_parts(args.parts, args.kept.count);
    parts_kernel<M, Row><<<blocks_of_groups(args.kept.count, of_parts), kGroupThreads, 0, stream>>>(
        args, of_parts, row);
  }
}

}  // namespace

void reduce_launch(const ReduceArgs& args, cudaStream_t stream) {
  with_any_arithmetic(args.dtype, [&]<typename M>() {
    if (facts(args.fn).cuda == CudaKernel::kHot) {  // the sum and the mean
      return launch_row<M>(args, OneRow<reductions::Sum>{}, stream);
    }
    launch_row<M>(args, AnyRow{args.fn}, stream);
  });
}

void extreme_launch(const ExtremeArgs& args, cudaStream_t stream) {
  const auto lines = static_cast<std::uint32_t>(args.lines.lines());
  with_any_arithmetic(args.dtype, [&]<typename M>() {
    extreme_kernel<M><<<(args.kept.count + lines - 1) / lines, kGroupThreads, 0, stream>>>(args);
  });
}

void mean_square_launch(DType dtype, const void* a, const void* b, std::int64_t count,
                        double* partial, void* out, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    square_kernel<M><<<kSquareParts, kGroupThreads, 0, stream>>>(dtype, a, b, count, partial);
    square_parts_kernel<M><<<1, kGroupThreads, 0, stream>>>(dtype, partial, count, out);
  });
}

}  // namespace dl::kernels::cuda
