// CUDA's reductions. Runs on one kind of device give the same bits.
#include "core/kernels/declared/reduce.h"

#include <utility>

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/copy/copy_kernels.h"
#include "core/kernels/cuda/reduce/reduce_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {
namespace {

// A loop as one map: reductions are not divided into parts by size.
template <std::size_t N>
OffsetMap<static_cast<int>(N)> whole_map(const StridedLoop<N>& loop, std::string_view op) {
  DL_CHECK(
      loop.count <= kMostElements, kNotImplemented,
      "{}: {} elements, a CUDA reduction takes at most {} along its kept and along its reduced "
      "dimensions",
      op, loop.count, kMostElements);
  OffsetMap<static_cast<int>(N)> map;
  for_each_part(loop, [&](const OffsetMap<static_cast<int>(N)>& only, const auto&) { map = only; });
  return map;
}

void run(ReduceArgs args, const Launch& launch) {
  args.parts = parts_for(args.kept.count, args.reduced.count, args.lines, 16, launch.sm_count());
  const std::size_t bytes =
      args.parts > 1 ? std::size_t{8} * args.parts * args.kept.count : std::size_t{0};
  const Workspace partial(bytes, launch.stream());
  args.partial = partial.data();
  reduce_launch(args, launch.stream());
  DL_CUDA_LAUNCHED("reduce");
}

// The reduction whose result is the pivot.
ReduceFn pivot_of(ReduceFn fn) {
  return facts(fn).pivot == Pivot::kMean ? ReduceFn::kMean : ReduceFn::kAmax;
}

}  // namespace

void reduce(ReduceFn fn, const Tensor& input, double p, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto [outer, inner] = make_reduction_loops<2>(input.sizes(), input.strides(), out.sizes(),
                                                      {out.strides(), input.strides()});
  const std::string_view op = facts(fn).name;
  const bool interleaved =
      outer.count > 1 && outer.inner_stride(1) == 1 && inner.inner_stride(0) != 1;
  ReduceArgs args{.fn = fn,
                  .in = input.data_ptr(),
                  .dtype = input.dtype(),
                  .out = out.data_ptr(),
                  .out_dtype = out.dtype(),
                  .kept = whole_map(outer, op),
                  .reduced = whole_map(inner, op),
                  .p = p,
                  .lines = lines_of_packs(input.dtype(), inner.count, interleaved)};
  const Launch launch;
  if (facts(fn).pivot == Pivot::kNone || !is_floating(input.dtype())) return run(args, launch);
  const Workspace pivots(sizeof(double) * args.kept.count, launch.stream());
  ReduceArgs first = args;
  first.fn = pivot_of(fn);
  first.out = nullptr;
  first.numbered_out = pivots.as<double>();
  run(first, launch);
  args.pivots = pivots.as<double>();
  run(args, launch);
}

void sum_columns(const void* in, std::int64_t rows, std::int64_t columns, bool accumulate,
                 const Tensor& out) {
  if (columns == 0) return;
  const auto outer = make_loop<2>({columns}, {Strides{1}, Strides{1}});
  const auto inner = make_loop<1>({rows}, {Strides{columns}});
  const Launch launch;
  run({.fn = ReduceFn::kSum,
       .in = in,
       .dtype = out.dtype(),
       .out = out.data_ptr(),
       .out_dtype = out.dtype(),
       .kept = whole_map(outer, "sum"),
       .reduced = whole_map(inner, "sum"),
       .accumulate = accumulate,
       .lines = lines_of_packs(out.dtype(), rows, columns > 1)},
      launch);
}

void extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
             const Tensor& indices) {
  if (values.numel() == 0) return;
  const auto d = static_cast<std::size_t>(dim);
  const Shape& shape = values.sizes();
  Strides from = input.strides();
  from[d] = 0;
  const auto kept = make_loop<3>(shape, {values.strides(), indices.strides(), from});
  const std::int64_t step = input.strides()[d];
  const Launch launch;
  extreme_launch(
      {.fn = fn,
       .in = input.data_ptr(),
       .dtype = input.dtype(),
       .size = input.sizes()[d],
       .step = step,
       .values = values.data_ptr(),
       .indices = indices.data<std::int64_t>(),
       .kept = whole_map(kept, facts(fn).name),
       .lines = lines_of_packs(input.dtype(), input.sizes()[d], kept.count > 1 && step != 1)},
      launch.stream());
  DL_CUDA_LAUNCHED("extreme");
}

void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out) {
  if (grad.numel() == 0) return;
  if (!is_floating(grad.dtype())) refuse_dtype("max", grad.dtype(), "a floating dtype");
  Strides to = out.strides();
  const std::int64_t step = std::exchange(to[static_cast<std::size_t>(dim)], 0);
  const auto loop = make_loop<3>(grad.sizes(), {to, grad.strides(), indices.strides()});
  const auto width = static_cast<std::int64_t>(size_of(grad.dtype()));
  const Launch launch;
  for_each_part(loop, [&](const OffsetMap<3>& map, const std::array<std::int64_t, 3>& first) {
    scatter_strided(static_cast<std::size_t>(width),
                    static_cast<const char*>(grad.data_ptr()) + first[1] * width,
                    indices.data<std::int64_t>() + first[2], step,
                    static_cast<char*>(out.data_ptr()) + first[0] * width, map, launch.stream());
  });
  DL_CUDA_LAUNCHED("scatter");
}

}  // namespace dl::kernels::cuda
