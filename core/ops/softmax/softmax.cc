#include "core/ops/softmax/softmax.h"

#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/logic/logic.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"

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
  std::int64_t dim = 0;
};

// The softmax of `input`, but 0 in rows that are NaN because all their elements are -infinity.
Tensor without_empty_rows(const Tensor& input, const Tensor& output, std::int64_t dim) {
  if (output.numel() == 0) return output;
  const NoGradGuard not_recorded;
  // One element tells whether a row is NaN. On a device this is not checked, because the host would
  // have to wait for the answer.
  const Tensor first = output.narrow(dim, 0, 1);
  if (!output.is_cuda() && !any(ne(first, first)).item<bool>()) return output;
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
    node->save(output);
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
