#include <type_traits>

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/reduce/reduce_kernels.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cuda {
namespace {

// Totals of compute type M.
template <typename M>
using Total = std::conditional_t<std::is_floating_point_v<M>, double, M>;

constexpr int kMerged = 8;  // elements of a thread that are merged in the compute type

constexpr std::int64_t kMostSquared = std::int64_t{kSquareParts} * kThreads;  // packs of a launch

// The formulas of a row, chosen at run time: all threads take the same branch.
struct AnyRow {
  static constexpr bool kIsOne = false;
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
  static constexpr bool kIsOne = true;
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

// The total of one thread over its share of elements begin, begin + 1, ..., end - 1 of a result.
template <typename M, typename Row>
__device__ Total<M> total_of(const ReduceArgs& args, const Row& row, std::int64_t begin,
                             std::int64_t end, std::int64_t first,
                             const reductions::TermArgs<NumberOf<M>>& by) {
  using N = NumberOf<M>;
  using T = NumberOf<Total<M>>;
  T total = row.template identity<T>();
  if (args.reduced.dims == 1) {
    const std::int64_t step = args.reduced.strides[0][0];
    const std::int64_t at = first + begin * step;
    const auto packs = packs_of<M>(args.in, args.dtype, at, end - begin, step);
    packs.for_each(args.lines, [&](const auto& pack) {
      M values[pack.kCount];
      pack.load(args.in, args.dtype, at, values);
      N block = row.template identity<N>();
      // The values move, so that they stay in registers though the loop over all rows' formulas is
      // not unrolled.
#pragma unroll(Row::kIsOne ? pack.kCount : 1)
      for (int k = 0; k < pack.kCount; ++k) {
        if (pack.has(k)) block = row.merge(block, row.term(N(values[0]), by));
        for (int i = 1; i < pack.kCount; ++i) values[i - 1] = values[i];
      }
      total = row.merge(total, T(element_of(block)));
    });
    return element_of(total);
  }
  std::int64_t i = begin + args.lines.lane();
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
  const std::int64_t result = result_of_group(args.lines);
  const bool present = result < args.kept.count;
  const Offsets<2> kept = present ? args.kept(static_cast<std::uint32_t>(result)) : Offsets<2>{};
  // If a row begins at a pack, this cuts no pack but the last.
  const std::int64_t packs = (std::int64_t{args.reduced.count} + kRowPack<M> - 1) / kRowPack<M>;
  const auto cut = [&](std::int64_t part) {
    const std::int64_t at = packs * part / args.parts * kRowPack<M>;
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
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks) extreme_kernel(ExtremeArgs args) {
  __shared__ Best<M> shared[kGroupThreads];
  const std::int64_t result = result_of_group(args.lines);
  const bool present = result < args.kept.count;
  const Offsets<3> kept = present ? args.kept(static_cast<std::uint32_t>(result)) : Offsets<3>{};
  Best<M> best{M(0), -1};
  const auto packs =
      packs_of<M>(args.in, args.dtype, kept.at[2], present ? args.size : 0, args.step);
  packs.for_each(args.lines, [&](const auto& pack) {
    M values[pack.kCount];
    pack.load(args.in, args.dtype, kept.at[2], values);
    for (int k = 0; k < pack.kCount; ++k) {
      if (pack.has(k)) best = better(args.fn, best, {values[k], pack.at + k});
    }
  });
  best = args.lines.combine(
      best, shared, [&](const Best<M>& a, const Best<M>& b) { return better(args.fn, a, b); });
  if (!present || args.lines.lane() != 0) return;
  store_as<M>(args.values, args.dtype, kept.at[0], best.value);
  args.indices[kept.at[1]] = best.index;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    square_kernel(DType dtype, const void* a, const void* b, std::int64_t count, double* partial) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  const auto packs = packs_of<M>(a, dtype, 0, count);
  for (std::int64_t number = thread_number(); packs.has(number);
       number += std::int64_t{gridDim.x} * kGroupThreads) {
    const auto pack = packs.pack(number);
    M left[pack.kCount];
    M right[pack.kCount];
    pack.load(a, dtype, 0, left);
    pack.load(b, dtype, 0, right);
    for (int k = 0; k < pack.kCount; ++k) {
      const auto difference = static_cast<double>(left[k] - right[k]);
      total += difference * difference;
    }
  }
  total = Lines{}.combine(total, shared, Add());
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    square_parts_kernel(DType dtype, const double* partial, std::uint32_t parts, std::int64_t count,
                        void* out) {
  __shared__ double shared[kGroupThreads];
  const double total = joined_parts(
      Lines{}, parts, 0.0, shared, [&](std::uint32_t part) { return partial[part]; }, Add());
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
  with_any_arithmetic(args.dtype, [&]<typename M>() {
    extreme_kernel<M>
        <<<blocks_of_groups(args.kept.count, args.lines), kGroupThreads, 0, stream>>>(args);
  });
}

void mean_square_launch(DType dtype, const void* a, const void* b, std::int64_t count,
                        double* partial, void* out, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    const std::int64_t packs = packs_in<kRowPack<M>>(count);
    const unsigned parts = blocks_for(std::clamp(packs, std::int64_t{1}, kMostSquared));
    square_kernel<M><<<parts, kGroupThreads, 0, stream>>>(dtype, a, b, count, partial);
    square_parts_kernel<M><<<1, kGroupThreads, 0, stream>>>(dtype, partial, parts, count, out);
  });
}

}  // namespace dl::kernels::cuda
