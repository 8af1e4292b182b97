#include "core/ops/softmax.h"

#include "core/ops/autocast.h"
#include "core/ops/common.h"

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

template <Op forward_op, Op backward_op>
Tensor run(const Tensor& input, std::int64_t dim) {
  if (const auto cast = autocast_of<forward_op>(input)) {
    return run<forward_op, backward_op>(cast(input), dim);
  }
  const std::string_view op = info(forward_op).name;
  check_defined(input, op, "the input");
  check_floating(input, op);
  const std::size_t d = wrap_dim(dim, input.sizes().size(), op);
  if (input.dim() == 0) {
    return detail::drop_base(run<forward_op, backward_op>(input.view({1}), 0).view({}));
  }
  const Tensor dense = input.contiguous();
  Tensor output = empty_like(dense);
  call<forward_op>(input.device(), dense, static_cast<std::int64_t>(d), output);
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

Tensor log_softmax(const Tensor& input, std::int64_t dim) {
  return run<Op::kLogSoftmax, Op::kLogSoftmaxBackward>(input, dim);
}

}  // namespace dl
