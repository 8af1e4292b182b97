#include "core/ops/elementwise/elementwise.h"

#include <string>

#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/dispatch/takes.h"

namespace dl {
namespace {

// PyTorch's name of the node; null if it follows from the operation's name.
const char* grad_fn_of_unary(UnaryFn fn) noexcept {
  switch (fn) {
    case UnaryFn::kGeluTanh:
      return "GeluBackward0";
    case UnaryFn::kSelu:
      return "EluBackward0";
    case UnaryFn::kTanhshrink:
      return "SubBackward0";
    case UnaryFn::kDeg2rad:
      return "Deg2RadBackward0";
    case UnaryFn::kRad2deg:
      return "Rad2DegBackward0";
    case UnaryFn::kLogSigmoid:
      return "LogSigmoidBackward0";
    case UnaryFn::kLog1p:
      return "Log1PBackward0";
    case UnaryFn::kRelu6:
      return "HardtanhBackward0";
    case UnaryFn::kSquare:
      return "PowBackward0";
    case UnaryFn::kSoftsign:
      return "DivBackward0";
    case UnaryFn::kClamp:
      return "ClampBackward1";
    default:
      return nullptr;
  }
}

// Saves what the row's `saves` column says.
struct UnaryNode final : Node {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    const Tensor& seen = facts(fn).saves == Saves::kNothing ? grad : saved(0);
    const Tensor result = empty_like(seen);
    call<Op::kUnaryBackward>(grad.device(), fn, grad, seen, parameters, result);
    context.give(0, result);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    const Tensor& seen = facts(fn).saves == Saves::kNothing ? grad : saved(0);
    context.give(0, unary_gradient(fn, grad, seen, parameters));
  }
  UnaryFn fn{};
  Parameters parameters;
};

void fill(UnaryNode& node, UnaryFn fn, const Parameters& parameters, const Tensor& input,
          const Tensor& output) {
  node.fn = fn;
  node.parameters = parameters;
  node.set_grad_fn_name(grad_fn_of_unary(fn));
  if (facts(fn).saves == Saves::kInput) node.save_input(0, input);
  if (facts(fn).saves == Saves::kOutput) node.save_output(output);
}

}  // namespace

Tensor unary(UnaryFn fn, const Tensor& input, const Parameters& parameters) {
  if (const auto cast = autocast_of(fn, input)) return unary(fn, cast(input), parameters);
  const UnaryFacts& row = facts(fn);
  check_defined(input, row.name, "the input");
  const Tensor operand = promoted(input, row.takes, row.name);
  // As in PyTorch, only logsigmoid makes its result row-major.
  const Tensor output = fn == UnaryFn::kLogSigmoid
                            ? empty_like(operand, MemoryFormat::kContiguous)
                            : empty_for(input.sizes(), {&input}, operand.dtype(), operand.device());
  call<Op::kUnary>(operand.device(), fn, operand, parameters, output);
  if (auto* node = record<UnaryNode>(output, operand)) fill(*node, fn, parameters, operand, output);
  return output;
}

Tensor& unary_(UnaryFn fn, Tensor& input, const Parameters& parameters) {
  const UnaryFacts& row = facts(fn);
  const std::string name = std::string(row.name) + "_";
  check_defined(input, name, "the input");
  check_taken_in_place(input, row.takes, name);
  const bool recorded = is_recorded(input);
  check_in_place(input, recorded, name);
  check_not_expanded(input, name);
  // The node's edge and saved input are those from before the write.
  const Ref<UnaryNode> node = make_node<UnaryNode>(detail::before_write(input));
  const bool keeps = recorded && row.saves == Saves::kInput;
  const Tensor before = keeps ? input.detach().clone() : Tensor();
  call<Op::kUnary>(input.device(), fn, input, parameters, input);
  input.bump_version();
  if (node) {
    detail::attach_written(input, node);
    fill(*node, fn, parameters, before, input);
  }
  return input;
}

#define DL_UNARY(enumerator, name, ...)        \
  Tensor Tensor::name() const {                \
    get(#name);                                \
    return unary(UnaryFn::enumerator, *this);  \
  }                                            \
  Tensor& Tensor::name##_() {                  \
    get(#name "_");                            \
    return unary_(UnaryFn::enumerator, *this); \
  }
#include "core/elementwise/list.def"

}  // namespace dl
