#include "core/ops/order/order.h"

#include <limits>

#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/reduce/reduce_gradient.h"

namespace dl {
namespace {

struct CumsumBackward final : Node {
  std::string_view name() const noexcept override { return "cumsum"; }
  void backward(BackwardContext& context) override {
    const Tensor& from = context.grad_output();
    const Tensor grad = empty(from.sizes(), {.dtype = from.dtype(), .device = from.device()});
    call<Op::kCumsum>(from.device(), from, dim, true, grad);
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    context.give(0, cumsum(context.grad_output().flip(dim), dim).flip(dim));
  }
  std::int64_t dim = 0;
};

// Saved: the input.
struct CumprodBackward final : Node {
  std::string_view name() const noexcept override { return "cumprod"; }
  void backward(BackwardContext& context) override {
    const Tensor& from = context.grad_output();
    const Tensor grad = empty(from.sizes(), {.dtype = from.dtype(), .device = from.device()});
    call<Op::kCumprodBackward>(from.device(), from, saved(0), dim, grad);
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& x = saved(0);
    DL_CHECK(!any(eq(x, 0.0)).item<bool>(), kNotImplemented,
             "create_graph: gradients of gradients of cumprod are not recorded if an element is 0");
    const Tensor shares = mul(context.grad_output(), cumprod(x, dim));
    context.give(0, div(cumsum(shares.flip(dim), dim).flip(dim), x));
  }
  std::int64_t dim = 0;
};

// For sort, topk and medians; saved(0) is the indices.
struct OrderBackward final : Node {
  std::string_view name() const noexcept override { return operation; }
  void backward(BackwardContext& context) override {
    const Tensor from = context.grad_output().reshape(saved(0).sizes());
    const Tensor grad = zeros(input_shape, {.dtype = from.dtype(), .device = from.device()});
    call<Op::kMaxBackward>(grad.device(), from, saved(0), dim, grad);
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor from = context.grad_output().reshape(saved(0).sizes());
    const Tensor none = zeros(input_shape, {.dtype = from.dtype(), .device = from.device()});
    context.give(0, scatter_add(none, dim, saved(0), from));
  }
  std::string_view operation;
  Shape input_shape;
  std::int64_t dim = 0;
};

template <Op op>
std::pair<Tensor, Tensor> ordered(const Tensor& input, std::int64_t dim, std::int64_t wanted,
                                  bool descending) {
  const auto d = static_cast<std::size_t>(dim);
  Shape shape = input.sizes();
  shape[d] = wanted;
  // sort() keeps the memory order of its input; topk() and medians are row-major.
  const bool keeps = op == Op::kSort && shape.size() > 1;
  const auto place = [&](DType dtype) {
    return keeps ? empty_as_torch(input, shape, dtype)
                 : empty(shape, {.dtype = dtype, .device = input.device()});
  };
  const Tensor values = place(input.dtype());
  const Tensor indices = place(DType::kI64);
  through_row_major(values, [&](const Tensor& sorted) {
    through_row_major(indices, [&](const Tensor& places) {
      call<op>(input.device(), input, dim, descending, sorted, places);
    });
  });
  if (is_floating(values.dtype())) {
    if (auto* node = record<OrderBackward>(values, input)) {
      node->operation = info(op).name;
      node->input_shape = input.sizes();
      node->dim = dim;
      node->save(indices);
    }
  }
  return {values, indices};
}

// For medians of all elements: equal elements share the gradient. Saved: the input and the result.
struct MedianOfAllBackward final : ComposedNode {
  std::string_view name() const noexcept override { return operation; }
  void backward(BackwardContext& context) override {
    context.give(0, shared_among_equals(context.grad_output(), saved(0), saved(1)));
  }
  std::string_view operation;
};

std::pair<Tensor, Tensor> median_along(const Tensor& input, std::int64_t dim, bool ignore_nan,
                                       ReduceOptions options) {
  const std::string_view op = ignore_nan ? "nanmedian" : "median";
  check_defined(input, op, "the input");
  if (input.dtype() == DType::kBool) refuse_dtype(op, input.dtype(), "a number");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), op);
  if (input.dim() == 0) return median_along(input.view({1}), 0, ignore_nan, {});
  DL_CHECK(input.sizes()[d] > 0, kIndex, "{}: dimension {} of {} is empty and has no median", op, d,
           input.sizes().str());
  Shape kept = input.sizes();
  kept[d] = 1;
  Shape shape;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (k != d || options.keepdim) shape.push_back(kept[k]);
  }
  const Tensor values = empty(kept, {.dtype = input.dtype(), .device = input.device()});
  const Tensor indices = empty(kept, {.dtype = DType::kI64, .device = input.device()});
  call<Op::kMedian>(input.device(), input, static_cast<std::int64_t>(d), ignore_nan, values,
                    indices);
  const Tensor result = detail::drop_base(values.view(shape));
  if (is_floating(values.dtype())) {
    if (auto* node = record<OrderBackward>(result, input)) {
      node->operation = op;
      node->set_grad_fn_name(ignore_nan ? "NanmedianBackward1" : "MedianBackward1");
      node->input_shape = input.sizes();
      node->dim = static_cast<std::int64_t>(d);
      node->save(indices);
    }
  }
  return {result, detail::drop_base(indices.view(shape))};
}

Tensor median_of_all(const Tensor& input, bool ignore_nan) {
  const std::string_view op = ignore_nan ? "nanmedian" : "median";
  check_defined(input, op, "the input");
  const Tensor all = input.detach().reshape({-1});
  Tensor result;
  if (all.numel() > 0) {
    result = median_along(all, 0, ignore_nan, {}).first;
  } else {
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    const bool is_float = is_floating(input.dtype());
    // NaN converted to an integer, as on the CPUs that PyTorch supports.
    const std::int64_t whole = input.dtype() == DType::kI32 ? INT32_MIN : INT64_MIN;
    result = full({}, is_float ? Scalar(nothing) : Scalar(whole),
                  {.dtype = is_float ? input.dtype() : DType::kI64, .device = input.device()})
                 .to(input.dtype());
  }
  if (is_floating(result.dtype())) {
    if (auto* node = record<MedianOfAllBackward>(result, input)) {
      node->operation = op;
      node->set_grad_fn_name(ignore_nan ? "NanmedianBackward0" : "MedianBackward0");
      node->save(input);
      node->save(result);
    }
  }
  return result;
}

// The elements of a 1-d `sorted` without repetitions. `places` as in runs_of().
UniqueResult unique_of(const Tensor& sorted, const Tensor& places, const Shape& shape,
                       UniqueOptions options) {
  const Tensor begins = detail::begins_of_runs(sorted);
  UniqueResult result = detail::runs_of(begins, places, shape, options);
  result.values = masked_select(sorted, begins);
  return result;
}

// Reshapes results of one element back to 0-d, for a 0-d input.
std::pair<Tensor, Tensor> without_dims(const std::pair<Tensor, Tensor>& one) {
  return {detail::drop_base(one.first.view({})), detail::drop_base(one.second.view({}))};
}

}  // namespace

Tensor cumsum(const Tensor& input, std::int64_t dim) {
  if (const auto cast = autocast_of<Op::kCumsum>(input)) return cumsum(cast(input), dim);
  check_defined(input, "cumsum", "the input");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "cumsum");
  if (input.dim() == 0) return detail::drop_base(cumsum(input.view({1}), 0).view({}));
  const DType dtype = is_floating(input.dtype()) ? input.dtype() : DType::kI64;
  const Tensor result = empty(input.sizes(), {.dtype = dtype, .device = input.device()});
  call<Op::kCumsum>(input.device(), input, static_cast<std::int64_t>(d), false, result);
  if (is_floating(dtype)) {
    if (auto* node = record<CumsumBackward>(result, input))
      node->dim = static_cast<std::int64_t>(d);
  }
  return result;
}

Tensor cumprod(const Tensor& input, std::int64_t dim) {
  if (const auto cast = autocast_of<Op::kCumprod>(input)) return cumprod(cast(input), dim);
  check_defined(input, "cumprod", "the input");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "cumprod");
  if (input.dim() == 0) return detail::drop_base(cumprod(input.view({1}), 0).view({}));
  const DType dtype = is_floating(input.dtype()) ? input.dtype() : DType::kI64;
  const Tensor result = empty(input.sizes(), {.dtype = dtype, .device = input.device()});
  call<Op::kCumprod>(input.device(), input, static_cast<std::int64_t>(d), result);
  if (is_floating(dtype)) {
    if (auto* node = record<CumprodBackward>(result, input)) {
      node->dim = static_cast<std::int64_t>(d);
      node->save(input);
    }
  }
  return result;
}

std::pair<Tensor, Tensor> median(const Tensor& input, std::int64_t dim, ReduceOptions options) {
  return median_along(input, dim, false, options);
}
Tensor median(const Tensor& input) {
  return median_of_all(input, false);
}
std::pair<Tensor, Tensor> nanmedian(const Tensor& input, std::int64_t dim, ReduceOptions options) {
  return median_along(input, dim, true, options);
}
Tensor nanmedian(const Tensor& input) {
  return median_of_all(input, true);
}

std::pair<Tensor, Tensor> kthvalue(const Tensor& input, std::int64_t k, std::int64_t dim,
                                   ReduceOptions options) {
  constexpr std::string_view kName = "kthvalue";
  check_defined(input, kName, "the input");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), kName);
  const std::int64_t size = input.dim() == 0 ? 1 : input.sizes()[d];
  DL_CHECK(k >= 1 && k <= size, kInvalidArgument,
           "{}: k is {}, wanted 1 to {}, the size of "
           "dimension {} of {}",
           kName, k, size, d, input.sizes().str());
  if (input.dim() == 0) return sort(input, 0);
  const auto at = static_cast<std::int64_t>(d);
  const auto [values, indices] = topk(input, k, at, {.largest = false});
  const auto last = [&](const Tensor& from) {
    return options.keepdim ? from.narrow(at, k - 1, 1) : from.select(at, k - 1);
  };
  return {detail::finish_composed(last(values).clone(MemoryFormat::kContiguous), input,
                                  "KthvalueBackward0"),
          last(indices).clone(MemoryFormat::kContiguous)};
}

Tensor detail::begins_of_runs(const Tensor& sorted) {
  const std::int64_t count = sorted.size(0);
  const Tensor begins = ones({count}, {.dtype = DType::kBool, .device = sorted.device()});
  if (count > 1) {
    const Tensor differs = ne(sorted.slice(0, 1, count), sorted.slice(0, 0, count - 1));
    begins.slice(0, 1, count).copy_(differs.dim() == 1 ? differs : any(differs, 1));
  }
  return begins;
}

UniqueResult detail::runs_of(const Tensor& begins, const Tensor& places, const Shape& shape,
                             UniqueOptions options) {
  const std::int64_t count = begins.numel();
  const TensorOptions whole{.dtype = DType::kI64, .device = begins.device()};
  UniqueResult result;
  if (options.return_inverse) {
    const Tensor numbers = cumsum(begins, 0) - 1;
    result.inverse =
        places.defined() ? scatter(zeros({count}, whole), 0, places, numbers) : numbers;
    result.inverse = drop_base(result.inverse.view(shape));
  }
  if (options.return_counts) {
    const Tensor first = nonzero(begins).view({-1});
    const Tensor next = cat({first, full({1}, count, whole)}).slice(0, 1, first.numel() + 1);
    result.counts = next - first;
  }
  return result;
}

UniqueResult unique(const Tensor& input, UniqueOptions options) {
  check_defined(input, "unique", "the input");
  const auto [sorted, places] = sort(input.detach().reshape({-1}), 0);
  return unique_of(sorted, places, input.sizes(), options);
}

UniqueResult unique_consecutive(const Tensor& input, UniqueOptions options) {
  check_defined(input, "unique_consecutive", "the input");
  return unique_of(input.detach().reshape({-1}), {}, input.sizes(), options);
}

std::pair<Tensor, Tensor> sort(const Tensor& input, std::int64_t dim, SortOptions options) {
  check_defined(input, "sort", "the input");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "sort");
  if (input.dim() == 0) return without_dims(sort(input.view({1}), 0, options));
  return ordered<Op::kSort>(input, static_cast<std::int64_t>(d), input.sizes()[d],
                            options.descending);
}

Tensor argsort(const Tensor& input, std::int64_t dim, SortOptions options) {
  check_defined(input, "argsort", "the input");
  return sort(input.detach(), dim, options).second;
}

std::pair<Tensor, Tensor> topk(const Tensor& input, std::int64_t k, std::int64_t dim,
                               TopkOptions options) {
  check_defined(input, "topk", "the input");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "topk");
  if (input.dim() == 0) {
    DL_CHECK(k == 1, kInvalidArgument, "topk: k is {}, wanted 1 of a tensor without dimensions", k);
    return without_dims(topk(input.view({1}), k, 0, options));
  }
  const std::int64_t size = input.sizes()[d];
  DL_CHECK(k >= 0 && k <= size, kInvalidArgument,
           "topk: k is {}, wanted 0 to {}, the size of dimension {} of {}", k, size, d,
           input.sizes().str());
  return ordered<Op::kTopk>(input, static_cast<std::int64_t>(d), k, options.largest);
}

Tensor Tensor::cumsum(std::int64_t dim) const {
  get("cumsum");
  return dl::cumsum(*this, dim);
}
std::pair<Tensor, Tensor> Tensor::sort(std::int64_t dim, SortOptions options) const {
  get("sort");
  return dl::sort(*this, dim, options);
}
Tensor Tensor::argsort(std::int64_t dim, SortOptions options) const {
  get("argsort");
  return dl::argsort(*this, dim, options);
}
std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, std::int64_t dim,
                                       TopkOptions options) const {
  get("topk");
  return dl::topk(*this, k, dim, options);
}

}  // namespace dl
