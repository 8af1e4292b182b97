#include "core/ops/softmax/softmax.h"

#include <cmath>

#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/logic/logic.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

template <Op backward_op>
struct SoftmaxBackward final : Node {
  std::string_view name() const noexcept override {
    return backward_op == Op::kSoftmaxBackward ? "softmax" : "log_softmax";
  }
  void backward(BackwardContext& context) override {
    const Tensor grad = empty_like(saved(0));
    call<backward_op>(grad.device(), context.grad_output().contiguous(), saved(0), dim, grad);
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& y = saved(0);
    if constexpr (backward_op == Op::kSoftmaxBackward) {
      context.give(0, y.mul(g.sub(sum(g.mul(y), {dim}, {.keepdim = true}))));
    } else {
      context.give(0, g.sub(y.exp().mul(sum(g, {dim}, {.keepdim = true}))));
    }
  }
  std::int64_t dim = 0;
};

// Zeroes the rows of softmax(input) in which all inputs are -infinity. Both are row-major.
void zero_empty_rows(const Tensor& input, std::int64_t dim, const Tensor& output) {
  const auto d = static_cast<std::size_t>(dim);
  const std::int64_t count = input.sizes()[d];
  std::int64_t inner = 1;  // not the stride, which is arbitrary if the size is 1
  for (std::size_t i = d + 1; i < input.sizes().size(); ++i) inner *= input.sizes()[i];
  visit_floating(input.dtype(), "softmax", [&]<typename T>() {
    const T* const x = input.data<T>();
    T* const y = output.data<T>();
    for (std::int64_t begin = 0; begin < output.numel(); begin += count * inner) {
      for (std::int64_t row = begin; row < begin + inner; ++row) {
        if (!std::isnan(static_cast<double>(y[row]))) continue;
        const auto is_empty = [&](std::int64_t i) {
          return static_cast<double>(x[row + i * inner]) == -kInfinity;
        };
        std::int64_t i = 0;
        while (i < count && is_empty(i)) ++i;
        if (i < count) continue;
        for (i = 0; i < count; ++i) y[row + i * inner] = T(0);
      }
    }
  });
}

// The softmax of `input`, but 0 in rows that are NaN because all their elements are -infinity.
Tensor without_empty_rows(const Tensor& input, const Tensor& output, std::int64_t dim) {
  if (output.numel() == 0) return output;
  const NoGradGuard not_recorded;
  if (!output.is_cuda()) {
    tape::run("softmax", 1, &zero_empty_rows, input, dim, output);
    return output;
  }
  const Tensor has_any = ne(max(input, dim, {.keepdim = true}).first, -kInfinity);
  return masked(output, has_any.expand(output.sizes()));
}

enum class EmptyRows : std::uint8_t { kNaN, kZero };

template <Op forward_op, Op backward_op, EmptyRows empty_rows = EmptyRows::kNaN>
Tensor run(const Tensor& input, std::int64_t dim) {
  if (const auto cast = autocast_of<forward_op>(input)) {
    return run<forward_op, backward_op, empty_rows>(cast(input), dim);
  }
  const std::string_view op = info(forward_op).name;
  check_defined(input, op, "the input");
  check_floating(input, op);
  const std::size_t d = wrap_dim(dim, input.sizes().size(), op);
  if (input.dim() == 0) {
    return detail::drop_base(run<forward_op, backward_op, empty_rows>(input.view({1}), 0).view({}));
  }
  const Tensor dense = input.contiguous();
  Tensor output = empty_like(dense);
  call<forward_op>(input.device(), dense, static_cast<std::int64_t>(d), output);
  if constexpr (empty_rows == EmptyRows::kZero) {
    output = without_empty_rows(dense, output, static_cast<std::int64_t>(d));
  }
  if (auto* node = record<SoftmaxBackward<backward_op>>(output, dense)) {
    node->dim = static_cast<std::int64_t>(d);
    node->save_output(output);
  }
  return output;
}

}  // namespace

Tensor softmax(const Tensor& input, std::int64_t dim) {
  return run<Op::kSoftmax, Op::kSoftmaxBackward>(input, dim);
}

Tensor detail::safe_softmax(const Tensor& input, std::int64_t dim) {
  return run<Op::kSoftmax, Op::kSoftmaxBackward, EmptyRows::kZero>(input, dim);
}

Tensor log_softmax(const Tensor& input, std::int64_t dim) {
  return run<Op::kLogSoftmax, Op::kLogSoftmaxBackward>(input, dim);
}

}  // namespace dl
