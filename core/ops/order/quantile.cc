// quantile() and nanquantile(): elements of the sorted input, and what lies between two.
#include <algorithm>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/indexing.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

void check_quantile(const Tensor& input, const Tensor& q, std::string_view op,
                    std::string_view interpolation) {
  check_defined(input, op, "the input");
  check_defined(q, op, "q");
  if (input.dtype() != DType::kF32 && input.dtype() != DType::kF64) {
    refuse_dtype(op, input.dtype(), "float32 or float64");
  }
  check_same_device(input, q, op);
  DL_CHECK(q.dtype() == input.dtype(), kDType, "{}: q is {}, but the input is {}", op,
           name_of(q.dtype()), name_of(input.dtype()));
  DL_CHECK(q.dim() <= 1, kShape, "{}: q has shape {}, wanted a number or one dimension", op,
           q.sizes().str());
  DL_CHECK(input.numel() > 0, kShape, "{}: the input of shape {} has no element", op,
           input.sizes().str());
  constexpr std::string_view kKnown[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  DL_CHECK(std::ranges::find(kKnown, interpolation) != std::end(kKnown), kInvalidArgument,
           "{}: interpolation is \"{}\", wanted \"linear\", \"lower\", \"higher\", \"midpoint\" or "
           "\"nearest\"",
           op, interpolation);
}

// The largest number of elements whose places are all exact in float32; PyTorch has the same limit.
constexpr std::int64_t kMostInFloat = std::int64_t{1} << 24U;

// At places `ranks` of the elements sorted along the last dimension.
Tensor elements_at(const Tensor& sorted, const Tensor& ranks, std::string_view interpolation) {
  const Tensor below = interpolation == "higher"    ? ceil(ranks)
                       : interpolation == "nearest" ? round(ranks)
                                                    : floor(ranks);
  const Tensor lower = gather(sorted, -1, below.to(DType::kI64));
  if (interpolation != "linear" && interpolation != "midpoint") return lower;
  const Tensor weights = interpolation == "midpoint" ? full_like(ranks, 0.5) : sub(ranks, below);
  return lerp(lower, gather(sorted, -1, ceil(ranks).to(DType::kI64)), weights);
}

Tensor quantile_of(const Tensor& input, const Tensor& q, std::optional<std::int64_t> dim,
                   const QuantileOptions& options, bool ignore_nan) {
  const std::string_view op = ignore_nan ? "nanquantile" : "quantile";
  check_quantile(input, q, op, options.interpolation);
  const std::size_t rank = input.sizes().size();
  const std::size_t d = dim ? wrap_dim(*dim, rank, op) : 0;
  const auto at = static_cast<std::int64_t>(d);
  const Tensor along = dim ? input.unsqueeze(-1).transpose(at, -1) : input.reshape({-1});
  DL_CHECK(along.size(-1) <= kMostInFloat || input.dtype() == DType::kF64, kInvalidArgument,
           "{}: {} elements in float32, wanted at most {}; convert the input and q to float64", op,
           along.size(-1), kMostInFloat);
  const Tensor sorted = sort(along, -1).first;
  const Tensor shares = q.detach().reshape({-1});
  const Tensor is_nan = isnan(sorted.detach());
  const auto last = static_cast<double>(sorted.size(-1) - 1);
  Tensor ranks;
  if (ignore_nan) {
    const Tensor count = sum(logical_not(is_nan), -1, {.keepdim = true}).to(input.dtype());
    ranks = clamp_min(mul(shares, sub(count, 1)), 0);
  } else {
    // A NaN is sorted last.
    ranks = where(any(is_nan, -1, {.keepdim = true}), last, mul(shares, last));
  }
  Shape shape;  // of the result for one q, and then their number
  for (std::size_t k = 0; k < rank; ++k) {
    const bool reduced = !dim || k == d;
    if (!reduced || options.keepdim) shape.push_back(reduced ? 1 : input.sizes()[k]);
  }
  shape.push_back(shares.numel());
  const Tensor values = elements_at(sorted, ranks, options.interpolation).reshape(shape);
  Dims order{values.dim() - 1};
  for (std::int64_t k = 0; k + 1 < values.dim(); ++k) order.push_back(k);
  return detail::finish_composed(q.dim() == 0 ? values.squeeze(-1) : values.permute(order), input,
                                 "SqueezeBackward4");
}

Tensor quantile_of(const Tensor& input, double q, std::optional<std::int64_t> dim,
                   const QuantileOptions& options, bool ignore_nan) {
  const std::string_view op = ignore_nan ? "nanquantile" : "quantile";
  check_defined(input, op, "the input");
  DL_CHECK(q >= 0 && q <= 1, kInvalidArgument, "{}: q is {}, wanted a share from 0 to 1", op, q);
  return quantile_of(input, scalar_tensor(q, input.dtype(), op, input.device()), dim, options,
                     ignore_nan);
}

void check_shares(const Tensor& q, std::string_view op) {
  check_defined(q, op, "q");
  if (q.is_cuda()) return;  // asking would wait for the GPU
  const Tensor inside = logical_and(ge(q.detach(), 0), le(q.detach(), 1));
  DL_CHECK(all(inside).item<bool>(), kInvalidArgument,
           "{}: q has a number outside of 0 to 1, wanted shares", op);
}

}  // namespace

Tensor quantile(const Tensor& input, double q, std::optional<std::int64_t> dim,
                QuantileOptions options) {
  return quantile_of(input, q, dim, options, false);
}

Tensor quantile(const Tensor& input, const Tensor& q, std::optional<std::int64_t> dim,
                QuantileOptions options) {
  check_shares(q, "quantile");
  return quantile_of(input, q, dim, options, false);
}

Tensor nanquantile(const Tensor& input, double q, std::optional<std::int64_t> dim,
                   QuantileOptions options) {
  return quantile_of(input, q, dim, options, true);
}

Tensor nanquantile(const Tensor& input, const Tensor& q, std::optional<std::int64_t> dim,
                   QuantileOptions options) {
  check_shares(q, "nanquantile");
  return quantile_of(input, q, dim, options, true);
}

}  // namespace dl
