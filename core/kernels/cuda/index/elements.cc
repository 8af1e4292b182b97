// CUDA's gathering and scattering of single elements. An index out of range is reported as a fault
// (fault.h); gather gives zeros for it, and scatter leaves it out.
#include <array>

#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/index/elements_kernels.h"
#include "core/kernels/cuda/index/nonzero_kernels.h"
#include "core/kernels/cuda/order/order_kernels.h"
#include "core/kernels/cuda/order/sorted_pairs.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/declared/index.h"

namespace dl::kernels::cuda {
namespace {

IndexRange range_of(const Indexed& by) {
  return {.size = by.size, .step = by.step, .from_end = by.from_end, .is_checked = by.is_checked};
}

char* moved(const Tensor& tensor, std::int64_t elements) {
  return static_cast<char*>(tensor.data_ptr()) +
         elements * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

}  // namespace

void add_offsets(const Indexed& by, const Tensor& index, const Tensor& offsets) {
  const auto loop = make_loop<2>(offsets.sizes(), {offsets.strides(), index.strides()});
  const Launch launch;
  for_each_part(loop, [&](const OffsetMap<2>& map, const std::array<std::int64_t, 2>& first) {
    add_offsets_launch(range_of(by), index.data<std::int64_t>() + first[1],
                       offsets.data<std::int64_t>() + first[0], map, launch.fault(),
                       launch.stream());
  });
  DL_CUDA_LAUNCHED("add_offsets");
}

void gather_elements(const Indexed& by, const Tensor& source, const Tensor& index,
                     const Tensor& out) {
  const auto loop = make_loop<3>(out.sizes(), {out.strides(), index.strides(), source.strides()});
  const Launch launch;
  for_each_part(loop, [&](const OffsetMap<3>& map, const std::array<std::int64_t, 3>& first) {
    gather_launch(range_of(by), size_of(out.dtype()), moved(source, first[2]),
                  index.data<std::int64_t>() + first[1], moved(out, first[0]), map, launch.fault(),
                  launch.stream());
  });
  DL_CUDA_LAUNCHED("gather");
}

// Sorts the elements by their targets, so that the result does not depend on the threads' order.
void scatter_elements(const Indexed& by, const Tensor& target, const Tensor& index,
                      const Tensor& source, ScatterMode how, std::int64_t) {
  const auto loop =
      make_loop<3>(source.sizes(), {target.strides(), index.strides(), source.strides()});
  const Launch launch;
  for_each_part(loop, [&](const OffsetMap<3>& map, const std::array<std::int64_t, 3>& first) {
    OffsetMap<2> to;
    OffsetMap<1> from;
    to.dims = from.dims = map.dims;
    to.count = from.count = map.count;
    for (int d = 0; d < map.dims; ++d) {
      to.sizes[d] = from.sizes[d] = map.sizes[d];
      to.strides[d][0] = map.strides[d][0];
      to.strides[d][1] = map.strides[d][1];
      from.strides[d][0] = map.strides[d][2];
    }
    const SortedPairs pairs(map.count, launch.stream());
    scatter_keys_launch(range_of(by), index.data<std::int64_t>() + first[1], pairs.keys(),
                        pairs.numbers(), to, launch.fault(), launch.stream());
    DL_CUDA_LAUNCHED("scatter");
    pairs.run(kPlaceBits);
    scatter_launch({.how = how,
                    .dtype = target.dtype(),
                    .keys = pairs.sorted_keys(),
                    .numbers = pairs.sorted_numbers(),
                    .target = moved(target, first[0]),
                    .source = moved(source, first[2]),
                    .map = from},
                   launch.stream());
    DL_CUDA_LAUNCHED("scatter");
  });
}

void nonzero(const Tensor& mask, const Tensor& out) {
  NonzeroArgs args{
      .mask = mask.data<bool>(), .count = mask.numel(), .dims = static_cast<int>(mask.dim())};
  DL_CHECK(args.dims <= NonzeroArgs::kMostDims, kNotImplemented,
           "nonzero: {} dimensions, CUDA takes at most {}", args.dims, NonzeroArgs::kMostDims);
  for (std::size_t d = 0; d < mask.sizes().size(); ++d) args.sizes[d] = mask.sizes()[d];
  const Launch launch;
  const std::int64_t blocks = nonzero_blocks(args.count);
  const Workspace counts(8 * static_cast<std::size_t>(blocks), launch.stream());
  auto* const totals = counts.as<std::int64_t>();
  count_true_launch(args, totals, launch.stream());
  OffsetMap<2> one_line;
  one_line.count = 1;
  running_launch({.how = Running::kSum,
                  .dtype = DType::kI64,
                  .out_dtype = DType::kI64,
                  .size = blocks,
                  .step = 1,
                  .out_step = 1,
                  .lines = one_line},
                 totals, totals, launch.stream());
  nonzero_launch(args, totals, out.data<std::int64_t>(), launch.stream());
  DL_CUDA_LAUNCHED("nonzero");
}

}  // namespace dl::kernels::cuda
