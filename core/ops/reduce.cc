#include "core/ops/reduce.h"

#include <numeric>

#include "core/ops/arithmetic.h"
#include "core/ops/autocast.h"
#include "core/ops/common.h"

namespace dl {
namespace {

// In f32 for short dtypes: a divisor that counts elements may be more than f16 holds.
Tensor divided(const Tensor& gradient, const Tensor& divisor) {
  if (size_of(gradient.dtype()) > 2) return div(gradient, divisor.to(gradient.dtype()));
  return div(gradient.to(DType::kF32), divisor.to(DType::kF32)).to(gradient.dtype());
}

struct SumBackward final : Node {
  std::string_view name() const noexcept override { return operation; }
  void backward(BackwardContext& context) override {
    Tensor grad = context.grad_output().reshape(kept_shape);
    if (divisor != 1.0) grad = div(grad, divisor);
    context.give(0, grad.expand(input_shape));
  }
  std::string_view operation;
  Shape input_shape;
  Shape kept_shape;  // of the result, with reduced dimensions of size 1
  double divisor = 1.0;
};

struct MaxBackward final : Node {
  std::string_view name() const noexcept override { return "max"; }
  void backward(BackwardContext& context) override {
    const Tensor& indices = saved(0);
    const Tensor grad = zeros(input_shape, {.dtype = context.grad_output().dtype(),
                                            .device = context.grad_output().device()});
    const Tensor from = context.grad_output().reshape(indices.sizes());
    call<Op::kMaxBackward>(grad.device(), from, indices, dim, grad);
    context.give(0, grad);
  }
  Shape input_shape;
  std::int64_t dim = 0;
};

// Of the largest of all elements: equal ones share its gradient.
struct MaxOfAllBackward final : Node {
  std::string_view name() const noexcept override { return "max"; }
  void backward(BackwardContext& context) override {
    const Tensor& input = saved(0);
    const Tensor& largest = saved(1);
    const bool is_nan = ne(largest, largest).item<bool>();
    const Tensor winners = is_nan ? ne(input, input) : eq(input, largest);
    const Tensor share = divided(context.grad_output(), sum(winners));
    context.give(0, masked(share.expand(input.sizes()), winners));
  }
};

Tensor reduce(const Tensor& input, const Dims& dims, ReduceOptions options, bool is_mean,
              std::string_view op) {
  check_defined(input, op, "the input");
  if (is_mean) check_floating(input, op);
  Shape kept = input.sizes();
  Dims reduced(kept.size(), 0);
  double divisor = 1.0;
  for (const std::int64_t dim : dims) {
    const std::size_t d = wrap_dim(dim, kept.size(), op);
    if (kept.empty()) continue;
    DL_CHECK(reduced[d] == 0, kInvalidArgument, "{}: dimension {} is named twice", op, d);
    reduced[d] = 1;
    if (is_mean) divisor *= static_cast<double>(kept[d]);
    kept[d] = 1;
  }
  const DType dtype = is_floating(input.dtype()) ? input.dtype() : DType::kI64;
  Tensor result = empty(kept, {.dtype = dtype, .device = input.device()});
  call<Op::kSum>(input.device(), input, divisor, result);
  if (!options.keepdim) {
    Shape shape;
    for (std::size_t d = 0; d < kept.size(); ++d) {
      if (reduced[d] == 0) shape.push_back(kept[d]);
    }
    const NoGradGuard no_grad;
    result = result.view(shape).detach();
  }
  if (auto* node = record<SumBackward>(result, input)) {
    node->operation = op;
    node->input_shape = input.sizes();
    node->kept_shape = kept;
    node->divisor = divisor;
  }
  return result;
}

Dims all_dims(const Tensor& input) {
  Dims dims(input.sizes().size(), 0);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::pair<Tensor, Tensor> max_along(const Tensor& input, std::int64_t dim, ReduceOptions options,
                                    std::string_view op) {
  check_defined(input, op, "the input");
  if (input.dim() == 0) return max_along(input.view({1}), 0, {}, op);
  const std::size_t d = wrap_dim(dim, input.sizes().size(), op);
  Shape kept = input.sizes();
  DL_CHECK(kept[d] > 0, kShape, "{}: dimension {} of {} is empty and has no largest element", op, d,
           kept.str());
  kept[d] = 1;
  Tensor values = empty(kept, {.dtype = input.dtype(), .device = input.device()});
  Tensor indices = empty(kept, {.dtype = DType::kI64, .device = input.device()});
  call<Op::kMax>(input.device(), input, static_cast<std::int64_t>(d), values, indices);
  const Tensor found = indices;
  if (!options.keepdim) {
    Shape shape = kept;
    shape.erase(d);
    values = values.view(shape).detach();
    indices = indices.view(shape).detach();
  }
  if (auto* node = record<MaxBackward>(values, input)) {
    node->input_shape = input.sizes();
    node->dim = static_cast<std::int64_t>(d);
    node->save(found);
  }
  return {values, indices};
}

}  // namespace

Tensor sum(const Tensor& input, const Dims& dims, ReduceOptions options) {
  if (const auto cast = autocast_of<Op::kSum>(input)) return sum(cast(input), dims, options);
  check_defined(input, "sum", "the input");
  return reduce(input, dims.empty() ? all_dims(input) : dims, options, false, "sum");
}

Tensor sum(const Tensor& input) {
  return sum(input, {}, {});
}

Tensor mean(const Tensor& input, const Dims& dims, ReduceOptions options) {
  check_defined(input, "mean", "the input");
  return reduce(input, dims.empty() ? all_dims(input) : dims, options, true, "mean");
}

Tensor mean(const Tensor& input) {
  return mean(input, {}, {});
}

std::pair<Tensor, Tensor> max(const Tensor& input, std::int64_t dim, ReduceOptions options) {
  return max_along(input, dim, options, "max");
}

Tensor argmax(const Tensor& input, std::int64_t dim, ReduceOptions options) {
  check_defined(input, "argmax", "the input");
  return max_along(input.detach(), dim, options, "argmax").second;
}

Tensor max(const Tensor& input) {
  check_defined(input, "max", "the input");
  const Tensor result = max_along(input.detach().reshape({-1}), 0, {}, "max").first;
  if (auto* node = record<MaxOfAllBackward>(result, input)) {
    node->save(input);
    node->save_output(result);
  }
  return result;
}

Tensor argmax(const Tensor& input) {
  check_defined(input, "argmax", "the input");
  return max_along(input.detach().reshape({-1}), 0, {}, "argmax").second;
}

}  // namespace dl
