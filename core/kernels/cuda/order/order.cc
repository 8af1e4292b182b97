// CUDA's sorting, medians and cumulative sums. Equal elements keep their order.
#include "core/kernels/declared/order.h"

#include <bit>

#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/order/order_kernels.h"
#include "core/kernels/cuda/order/sorted_pairs.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {
namespace {

void check_size(const Tensor& input, std::string_view op) {
  DL_CHECK(input.numel() <= kMostElements, kNotImplemented,
           "{}: an input of {} elements, CUDA takes at most {}", op, input.numel(), kMostElements);
}

// The offsets of the first elements of the lines along a dimension, in the order of the first
// operand's memory.
template <std::size_t N>
OffsetMap<static_cast<int>(N)> lines_of(const Shape& shape, std::array<Strides, N> strides,
                                        std::int64_t dim) {
  Shape kept = shape;
  kept[static_cast<std::size_t>(dim)] = 1;
  for (Strides& each : strides) each[static_cast<std::size_t>(dim)] = 0;
  OffsetMap<static_cast<int>(N)> map;
  for_each_part(make_loop<N>(kept, strides),
                [&](const OffsetMap<static_cast<int>(N)>& only, const auto&) { map = only; });
  return map;
}

// Numbers all elements, line after line, and sorts each line's.
class SortedLines {
 public:
  SortedLines(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
              const Launch& launch)
      : pairs_(input.numel(), launch.stream()) {
    const std::int64_t count = input.numel();
    const SortLines args{
        .dtype = input.dtype(),
        .descending = descending,
        .size = input.size(dim),
        .step = input.stride(dim),
        .lines = lines_of<2>(values.sizes(), {values.strides(), input.strides()}, dim)};
    const int line_bits = std::bit_width(args.lines.count);
    element_keys_launch(args, input.data_ptr(), pairs_.keys(), pairs_.numbers(), launch.stream());
    DL_CUDA_LAUNCHED("sort");
    if (size_of(input.dtype()) < 8) {
      pairs_.run(kKeyBits + line_bits);
      return;
    }
    // By the elements, then by the lines, which leaves those of a line in their order.
    pairs_.run(64);
    if (args.lines.count == 1) return;
    DL_CUDA_CHECK(cudaMemcpyAsync(pairs_.numbers(), pairs_.sorted_numbers(),
                                  8 * static_cast<std::size_t>(count), cudaMemcpyDeviceToDevice,
                                  launch.stream()));
    line_keys_launch(pairs_.numbers(), count, args.size, pairs_.keys(), launch.stream());
    DL_CUDA_LAUNCHED("sort");
    pairs_.run(line_bits);
  }
  const std::int64_t* numbers() const { return pairs_.sorted_numbers(); }

 private:
  SortedPairs pairs_;
};

TakeArgs take_args(const Tensor& input, std::int64_t dim, const Tensor& values,
                   const Tensor& indices) {
  return {.dtype = input.dtype(),
          .size = input.size(dim),
          .wanted = values.size(dim),
          .step = input.stride(dim),
          .value_step = values.stride(dim),
          .index_step = indices.stride(dim),
          .lines = lines_of<3>(values.sizes(),
                               {values.strides(), indices.strides(), input.strides()}, dim),
          .in = input.data_ptr(),
          .values = values.data_ptr(),
          .indices = indices.data<std::int64_t>()};
}

void take_first(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
                const Tensor& indices, std::string_view op) {
  if (values.numel() == 0) return;
  check_size(input, op);
  const Launch launch;
  const SortedLines sorted(input, dim, descending, values, launch);
  take_first_launch(take_args(input, dim, values, indices), sorted.numbers(), launch.stream());
  DL_CUDA_LAUNCHED("sort");
}

void run(Running how, const Tensor& input, std::int64_t dim, bool reverse, const Tensor& out) {
  if (out.numel() == 0) return;
  check_size(input, how == Running::kSum ? "cumsum" : "cumprod");
  const Launch launch;
  running_launch({.how = how,
                  .dtype = input.dtype(),
                  .out_dtype = out.dtype(),
                  .size = input.size(dim),
                  .step = input.stride(dim),
                  .out_step = out.stride(dim),
                  .reverse = reverse,
                  .lines = lines_of<2>(input.sizes(), {out.strides(), input.strides()}, dim)},
                 input.data_ptr(), out.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("cumsum");
}

}  // namespace

void sort(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
          const Tensor& indices) {
  take_first(input, dim, descending, values, indices, "sort");
}

void topk(const Tensor& input, std::int64_t dim, bool largest, const Tensor& values,
          const Tensor& indices) {
  take_first(input, dim, largest, values, indices, "topk");
}

void median(const Tensor& input, std::int64_t dim, bool ignore_nan, const Tensor& values,
            const Tensor& indices) {
  if (values.numel() == 0) return;
  check_size(input, ignore_nan ? "nanmedian" : "median");
  const Launch launch;
  const SortedLines sorted(input, dim, false, values, launch);
  take_median_launch(take_args(input, dim, values, indices), sorted.numbers(), ignore_nan,
                     launch.stream());
  DL_CUDA_LAUNCHED("median");
}

void cumsum(const Tensor& input, std::int64_t dim, bool reverse, const Tensor& out) {
  run(Running::kSum, input, dim, reverse, out);
}

void cumprod(const Tensor& input, std::int64_t dim, const Tensor& out) {
  run(Running::kProduct, input, dim, false, out);
}

void cumprod_backward(const Tensor& grad, const Tensor& input, std::int64_t dim,
                      const Tensor& out) {
  if (out.numel() == 0) return;
  check_size(input, "cumprod");
  const Launch launch;
  const Workspace sums(sizeof(double) * static_cast<std::size_t>(input.numel()), launch.stream());
  product_gradient_launch(
      {.dtype = input.dtype(),
       .grad_dtype = grad.dtype(),
       .size = input.size(dim),
       .step = input.stride(dim),
       .grad_step = grad.stride(dim),
       .out_step = out.stride(dim),
       .lines = lines_of<3>(input.sizes(), {out.strides(), input.strides(), grad.strides()}, dim)},
      grad.data_ptr(), input.data_ptr(), sums.as<double>(), out.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("cumprod_backward");
}

}  // namespace dl::kernels::cuda
