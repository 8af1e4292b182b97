#include "core/ops/order.h"

#include "core/ops/autocast.h"
#include "core/ops/common.h"

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
  std::int64_t dim = 0;
};

// For sort and topk; saved(0) is the indices.
struct OrderBackward final : Node {
  std::string_view name() const noexcept override { return operation; }
  void backward(BackwardContext& context) override {
    const Tensor& from = context.grad_output();
    const Tensor grad = zeros(input_shape, {.dtype = from.dtype(), .device = from.device()});
    call<Op::kMaxBackward>(grad.device(), from, saved(0), dim, grad);
    context.give(0, grad);
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
  const Tensor values = empty(shape, {.dtype = input.dtype(), .device = input.device()});
  const Tensor indices = empty(shape, {.dtype = DType::kI64, .device = input.device()});
  call<op>(input.device(), input, dim, descending, values, indices);
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

// A tensor without dimensions as one of one element, and back.
std::pair<Tensor, Tensor> without_dims(const std::pair<Tensor, Tensor>& one) {
  return {one.first.view({}), one.second.view({})};
}

}  // namespace

Tensor cumsum(const Tensor& input, std::int64_t dim) {
  if (const auto cast = autocast_of<Op::kCumsum>(input)) return cumsum(cast(input), dim);
  check_defined(input, "cumsum", "the input");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "cumsum");
  if (input.dim() == 0) return cumsum(input.view({1}), 0).view({});
  const DType dtype = is_floating(input.dtype()) ? input.dtype() : DType::kI64;
  const Tensor result = empty(input.sizes(), {.dtype = dtype, .device = input.device()});
  call<Op::kCumsum>(input.device(), input, static_cast<std::int64_t>(d), false, result);
  if (is_floating(dtype)) {
    if (auto* node = record<CumsumBackward>(result, input))
      node->dim = static_cast<std::int64_t>(d);
  }
  return result;
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
