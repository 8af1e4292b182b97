// CUDA's reductions. Runs on one kind of device give the same bits.
#include "core/kernels/declared/reduce.h"

#include <algorithm>

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

// The number of parts of each sum that gives a few blocks for each multiprocessor.
std::uint32_t parts_for(const SumArgs& args, const Launch& launch) {
  const std::int64_t blocks =
      (args.kept.count + args.lines.lines() - 1) / std::max(1, args.lines.lines());
  const std::int64_t wanted = 4 * static_cast<std::int64_t>(launch.sm_count());
  const std::int64_t by_size = args.reduced.count / (std::int64_t{16} * args.lines.lanes);
  const std::int64_t parts = std::min(wanted / std::max<std::int64_t>(1, blocks), by_size);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(parts, 1, 1024));
}

void run(SumArgs args, const Launch& launch) {
  args.parts = parts_for(args, launch);
  const std::size_t bytes =
      args.parts > 1 ? std::size_t{8} * args.parts * args.kept.count : std::size_t{0};
  const Workspace partial(bytes, launch.stream());
  args.partial = partial.data();
  sum_launch(args, launch.stream());
  DL_CUDA_LAUNCHED("sum");
}

// Sums divided by `divisor`; integer sums are not divided.
void sum(const Tensor& input, double divisor, const Tensor& out) {
  const auto [outer, inner] = make_reduction_loops<2>(input.sizes(), input.strides(), out.sizes(),
                                                      {out.strides(), input.strides()});
  const Launch launch;
  const bool interleaved =
      outer.count > 1 && outer.inner_stride(1) == 1 && inner.inner_stride(0) != 1;
  run({.in = input.data_ptr(),
       .dtype = input.dtype(),
       .out = out.data_ptr(),
       .out_dtype = out.dtype(),
       .kept = whole_map(outer, "sum"),
       .reduced = whole_map(inner, "sum"),
       .divisor = divisor,
       .lines = lines_for(inner.count, interleaved)},
      launch);
}

}  // namespace

void reduce(ReduceFn fn, const Tensor& input, double, const Tensor& out) {
  check_is_there(facts(fn));
  if (out.numel() == 0) return;
  const double count = static_cast<double>(input.numel()) / static_cast<double>(out.numel());
  sum(input, fn == ReduceFn::kMean ? count : 1.0, out);
}

void sum_columns(const void* in, std::int64_t rows, std::int64_t columns, bool accumulate,
                 const Tensor& out) {
  if (columns == 0) return;
  const auto outer = make_loop<2>({columns}, {Strides{1}, Strides{1}});
  const auto inner = make_loop<1>({rows}, {Strides{columns}});
  const Launch launch;
  run({.in = in,
       .dtype = out.dtype(),
       .out = out.data_ptr(),
       .out_dtype = out.dtype(),
       .kept = whole_map(outer, "sum"),
       .reduced = whole_map(inner, "sum"),
       .accumulate = accumulate,
       .lines = lines_for(rows, columns > 1)},
      launch);
}

void extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
             const Tensor& indices) {
  check_is_there(facts(fn));
  if (values.numel() == 0) return;
  const auto d = static_cast<std::size_t>(dim);
  const Shape& shape = values.sizes();
  Strides from = input.strides();
  from[d] = 0;
  const auto kept = make_loop<3>(shape, {values.strides(), indices.strides(), from});
  const std::int64_t step = input.strides()[d];
  const Launch launch;
  max_launch({.in = input.data_ptr(),
              .dtype = input.dtype(),
              .size = input.sizes()[d],
              .step = step,
              .values = values.data_ptr(),
              .indices = indices.data<std::int64_t>(),
              .kept = whole_map(kept, "max"),
              .lines = lines_for(input.sizes()[d], kept.count > 1 && step != 1)},
             launch.stream());
  DL_CUDA_LAUNCHED("max");
}

void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out) {
  if (grad.numel() == 0) return;
  if (!is_floating(grad.dtype())) refuse_dtype("max", grad.dtype(), "a floating dtype");
  const std::int64_t step = out.strides()[static_cast<std::size_t>(dim)];
  const auto loop = make_loop<3>(grad.sizes(), {out.strides(), grad.strides(), indices.strides()});
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
