// The model for operations with a node of their own: see core/autograd/node.h.
#include "core/ops/activation.h"

#include "core/ops/arithmetic.h"
#include "core/ops/autocast.h"
#include "core/ops/common.h"

namespace dl {
namespace {

struct ReluBackward final : Node {
  std::string_view name() const noexcept override { return "relu"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = empty_like(saved(0));
    call<Op::kReluBackward>(grad.device(), context.grad_output(), saved(0), grad);
    context.give(0, grad);
  }
};

struct TanhBackward final : Node {
  std::string_view name() const noexcept override { return "tanh"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = empty_like(saved(0));
    call<Op::kTanhBackward>(grad.device(), context.grad_output(), saved(0), grad);
    context.give(0, grad);
  }
};

struct SigmoidBackward final : Node {
  std::string_view name() const noexcept override { return "sigmoid"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = empty_like(saved(0));
    call<Op::kSigmoidBackward>(grad.device(), context.grad_output(), saved(0), grad);
    context.give(0, grad);
  }
};

struct GeluBackward final : Node {
  std::string_view name() const noexcept override { return "gelu"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = empty_like(saved(0));
    call<Op::kGeluBackward>(grad.device(), context.grad_output(), saved(0), form == GeluForm::kTanh,
                            grad);
    context.give(0, grad);
  }
  GeluForm form = GeluForm::kErf;
};

struct ExpBackward final : Node {
  std::string_view name() const noexcept override { return "exp"; }
  void backward(BackwardContext& context) override {
    context.give(0, mul(context.grad_output(), saved(0)));
  }
};

struct LogBackward final : Node {
  std::string_view name() const noexcept override { return "log"; }
  void backward(BackwardContext& context) override {
    context.give(0, div(context.grad_output(), saved(0)));
  }
};

struct SqrtBackward final : Node {
  std::string_view name() const noexcept override { return "sqrt"; }
  void backward(BackwardContext& context) override {
    context.give(0, div(context.grad_output(), mul(saved(0), 2.0)));
  }
};

struct PowBackward final : Node {
  std::string_view name() const noexcept override { return "pow"; }
  void backward(BackwardContext& context) override {
    if (exponent == 0.0) {
      context.give(0, zeros_like(saved(0)));
      return;
    }
    context.give(0, mul(context.grad_output(), mul(pow(saved(0), exponent - 1.0), exponent)));
  }
  double exponent = 1.0;
};

template <Op op>
Tensor run(const Tensor& input) {
  check_defined(input, info(op).name, "the input");
  check_floating(input, info(op).name);
  Tensor output = empty_like(input);
  call<op>(input.device(), input, output);
  return output;
}

template <Op op, typename N>
Tensor run_saving_output(const Tensor& input) {
  Tensor output = run<op>(input);
  if (Node* node = record<N>(output, input)) node->save_output(output);
  return output;
}

}  // namespace

Tensor relu(const Tensor& input) {
  check_defined(input, "relu", "the input");
  Tensor output = empty_like(input);
  call<Op::kRelu>(input.device(), input, output);
  if (Node* node = record<ReluBackward>(output, input)) node->save_output(output);
  return output;
}

Tensor& relu_(Tensor& input) {
  check_defined(input, "relu_", "the input");
  check_in_place(input, is_recorded(input), "relu_");
  check_not_expanded(input, "relu_");
  call<Op::kRelu>(input.device(), input, input);
  input.bump_version();
  if (Node* node = record<ReluBackward>(input, input)) node->save_output(input);
  return input;
}

Tensor tanh(const Tensor& input) {
  return run_saving_output<Op::kTanh, TanhBackward>(input);
}

Tensor sigmoid(const Tensor& input) {
  return run_saving_output<Op::kSigmoid, SigmoidBackward>(input);
}

Tensor gelu(const Tensor& input, GeluForm form) {
  check_defined(input, "gelu", "the input");
  check_floating(input, "gelu");
  Tensor output = empty_like(input);
  call<Op::kGelu>(input.device(), input, form == GeluForm::kTanh, output);
  if (auto* node = record<GeluBackward>(output, input)) {
    node->form = form;
    node->save(input);
  }
  return output;
}

Tensor exp(const Tensor& input) {
  if (const auto cast = autocast_of<Op::kExp>(input)) return exp(cast(input));
  return run_saving_output<Op::kExp, ExpBackward>(input);
}

Tensor sqrt(const Tensor& input) {
  return run_saving_output<Op::kSqrt, SqrtBackward>(input);
}

Tensor log(const Tensor& input) {
  if (const auto cast = autocast_of<Op::kLog>(input)) return log(cast(input));
  Tensor output = run<Op::kLog>(input);
  if (Node* node = record<LogBackward>(output, input)) node->save(input);
  return output;
}

Tensor pow(const Tensor& base, double exponent) {
  if (const auto cast = autocast_of<Op::kPow>(base)) return pow(cast(base), exponent);
  check_defined(base, "pow", "the base");
  check_floating(base, "pow");
  Tensor output = empty_like(base);
  call<Op::kPow>(base.device(), base, exponent, output);
  if (auto* node = record<PowBackward>(output, base)) {
    node->exponent = exponent;
    node->save(base);
  }
  return output;
}

}  // namespace dl
