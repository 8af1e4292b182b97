#include "core/ops/logic/search.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "core/tensor/scalar/promote.h"

namespace dl {
namespace {

void check_sequences(const Tensor& sequence, const Tensor& values, std::string_view op) {
  check_defined(sequence, op, "the sequence");
  check_defined(values, op, "the tensor of values");
  check_same_device(sequence, values, op);
  DL_CHECK(sequence.dim() >= 1, kShape, "{}: the sequence has no dimension, wanted [..., n]", op);
  if (sequence.dim() == 1) return;
  const Shape& of_sequence = sequence.sizes();
  const Shape& of_values = values.sizes();
  DL_CHECK(of_sequence.size() == of_values.size() &&
               std::equal(of_sequence.begin(), of_sequence.end() - 1, of_values.begin()),
           kShape,
           "{}: the sequence has shape {} and the values {}, wanted one sequence or the same sizes "
           "but the last",
           op, of_sequence.str(), of_values.str());
}

// Binary search: halves the range of each value's position until it is empty.
Tensor positions_of(const Tensor& sequence, const Tensor& values, bool right) {
  const std::int64_t last = sequence.dim() - 1;
  const std::int64_t count = sequence.size(last);
  const TensorOptions whole{.dtype = DType::kI64, .device = values.device()};
  Tensor low = zeros(values.sizes(), whole);
  if (count == 0 || values.numel() == 0) return low;
  Tensor high = full(values.sizes(), count, whole);
  const int steps = std::bit_width(static_cast<std::uint64_t>(count));
  for (int step = 0; step < steps; ++step) {
    const Tensor middle = floor_divide(low + high, 2);
    // If a range is empty already, `middle` may be past the end, and the range must not change.
    const Tensor open = lt(low, high);
    const Tensor there = gather(sequence, last, clamp(middle, {}, count - 1));
    // "not >=" instead of "<", because NaN is the largest.
    const Tensor before =
        logical_and(logical_not(right ? gt(there, values) : ge(there, values)), open);
    low = where(before, middle + 1, low);
    high = where(logical_or(before, logical_not(open)), high, middle);
  }
  return low;
}

// True if row a sorts before row b; NaN is the largest.
template <typename T>
bool stands_before(const T* a, const T* b, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) {
    if (a[i] < b[i]) return true;
    if (b[i] < a[i]) return false;
    const bool a_is_nan = a[i] != a[i];
    const bool b_is_nan = b[i] != b[i];
    if (a_is_nan != b_is_nan) return b_is_nan;
  }
  return false;
}

// The order of the rows of a contiguous [rows, width] on the CPU.
Tensor order_by_comparison(const Tensor& rows) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows.size(0)));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const std::int64_t width = rows.size(1);
  visit_all(rows.dtype(), [&]<typename T>() {
    const T* const first = rows.data<T>();
    // Equal rows keep their order. (clang refuses libstdc++ 12's std::stable_sort.)
    std::ranges::sort(order, [&](std::int64_t a, std::int64_t b) {
      if (stands_before(first + a * width, first + b * width, width)) return true;
      return a < b && !stands_before(first + b * width, first + a * width, width);
    });
  });
  return tensor(order);
}

// The order of the rows on any device. Each element is replaced by its rank, which is its place
// among the sorted distinct elements. Each round then replaces two neighbouring ranks of a row by
// the rank of the pair, so that the number of columns is halved.
Tensor order_by_ranks(const Tensor& rows) {
  const std::int64_t count = rows.size(0);
  if (rows.numel() == 0) return arange(count, {.dtype = DType::kI64, .device = rows.device()});
  const std::int64_t above_all = rows.numel();
  Tensor ranks = unique(rows, {.return_inverse = true}).inverse;
  // In the order of rows, NaN equals NaN.
  if (is_floating(rows.dtype())) ranks = where(ne(rows, rows), above_all, ranks);
  while (ranks.size(1) > 1) {
    if (ranks.size(1) % 2 == 1) ranks = cat({ranks, zeros_like(ranks.narrow(1, 0, 1))}, 1);
    const Tensor pairs = ranks.view({count, -1, 2});
    const Tensor both = pairs.select(2, 0) * (above_all + 1) + pairs.select(2, 1);
    ranks = unique(both, {.return_inverse = true}).inverse;
  }
  return argsort(ranks.view({count}), 0);
}

}  // namespace

Tensor searchsorted(const Tensor& sequence, const Tensor& values, const SearchOptions& options) {
  check_sequences(sequence, values, "searchsorted");
  const NoGradGuard no_grad;
  const DType dtype = promote_types(sequence.dtype(), values.dtype(), "searchsorted");
  Tensor sorted = sequence.to(dtype);
  if (options.sorter.defined()) {
    DL_CHECK(options.sorter.sizes() == sequence.sizes(), kShape,
             "searchsorted: the sorter has shape {}, wanted {}", options.sorter.sizes().str(),
             sequence.sizes().str());
    sorted = gather(sorted, -1, options.sorter);
  }
  const Tensor flat = (sequence.dim() == 1 ? values.reshape({-1}) : values).to(dtype);
  const Tensor places =
      detail::drop_base(positions_of(sorted, flat, options.right).view(values.sizes()));
  return options.out_int32 ? places.to(DType::kI32) : places;
}

Tensor searchsorted(const Tensor& sequence, Scalar value, const SearchOptions& options) {
  check_defined(sequence, "searchsorted", "the sequence");
  DL_CHECK(sequence.dim() == 1, kShape,
           "searchsorted: the sequence has shape {}, wanted [n] for one value",
           sequence.sizes().str());
  // As in PyTorch: a floating number is compared with integers as a floating number.
  const bool wide = !is_floating(sequence.dtype()) && value.kind() == Scalar::Kind::kFloating;
  const DType dtype = wide ? DType::kF64 : sequence.dtype();
  return searchsorted(sequence.to(dtype),
                      full({}, value, {.dtype = dtype, .device = sequence.device()}), options);
}

Tensor bucketize(const Tensor& values, const Tensor& boundaries, BucketizeOptions options) {
  check_defined(boundaries, "bucketize", "boundaries");
  DL_CHECK(boundaries.dim() == 1, kShape, "bucketize: boundaries have shape {}, wanted [n]",
           boundaries.sizes().str());
  check_sequences(boundaries, values, "bucketize");
  return searchsorted(boundaries, values, {.right = options.right, .out_int32 = options.out_int32});
}

std::pair<Tensor, Tensor> mode(const Tensor& input, std::int64_t dim, ReduceOptions options) {
  check_defined(input, "mode", "the input");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "mode");
  if (input.dim() == 0) {
    return {detail::finish_composed(input.clone(), input, "ModeBackward0"),
            zeros({}, {.dtype = DType::kI64, .device = input.device()})};
  }
  const auto at = static_cast<std::int64_t>(d);
  const std::int64_t count = input.size(at);
  DL_CHECK(count > 0, kIndex, "mode: dimension {} of {} is empty and has no mode", d,
           input.sizes().str());
  Tensor place;
  {
    const NoGradGuard no_grad;
    const auto [sorted, places] = sort(input.detach(), at);
    Tensor begins = ones(sorted.sizes(), {.dtype = DType::kBool, .device = input.device()});
    begins.narrow(at, 1, count - 1)
        .copy_(ne(sorted.narrow(at, 1, count - 1), sorted.narrow(at, 0, count - 1)));
    const Tensor run = cumsum(begins, at) - 1;  // the number of the element's run of equal values
    const Tensor lengths = scatter_add(zeros_like(run), at, run, ones_like(run));
    const Tensor longest = argmax(lengths, at, {.keepdim = true});  // the first, if equally long
    const Tensor end = gather(cumsum(lengths, at), at, longest) - 1;
    place = gather(places, at, end);
  }
  const Tensor value = gather(input, at, place);
  if (options.keepdim) return {detail::finish_composed(value, input, "ModeBackward0"), place};
  return {detail::finish_composed(value.squeeze(at), input, "ModeBackward0"),
          detail::drop_base(place.squeeze(at))};
}

UniqueResult unique(const Tensor& input, std::int64_t dim, UniqueOptions options) {
  check_defined(input, "unique", "the input");
  const auto d = static_cast<std::int64_t>(wrap_dim(dim, input.sizes().size(), "unique"));
  const NoGradGuard no_grad;
  if (input.dim() == 0) return unique(input.view({1}), 0, options);
  const std::int64_t count = input.size(d);
  const Tensor slices = input.detach().movedim(d, 0).contiguous();
  const std::int64_t width = count == 0 ? 0 : slices.numel() / count;
  const Tensor rows = slices.view({count, width});
  const Tensor order =
      input.device().type == DeviceType::kCPU ? order_by_comparison(rows) : order_by_ranks(rows);
  const Tensor begins = detail::begins_of_runs(index_select(rows, 0, order));
  UniqueResult result = detail::runs_of(begins, order, {count}, options);
  const Tensor firsts = masked_select(order, begins);
  result.values = detail::drop_base(index_select(slices, 0, firsts).movedim(0, d).contiguous());
  return result;
}

}  // namespace dl
