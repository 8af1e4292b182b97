#include "core/ops/elementwise/arithmetic.h"

#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/binary.h"
#include "core/tensor/scalar/promote.h"

namespace dl {
namespace {

struct AddBackward final : BinaryNode {
  std::string_view name() const noexcept override { return "add"; }
  void backward(BackwardContext& context) override {
    if (context.needs(0)) context.give(0, inputs[0].reduce_grad(context.grad_output()));
    if (context.needs(1)) {
      const Tensor& grad = context.grad_output();
      context.give(1, inputs[1].reduce_grad(factor == 1.0 ? grad : mul(grad, factor)));
    }
  }
  double factor = 1.0;  // multiplies the second operand
};

struct SubBackward final : BinaryNode {
  std::string_view name() const noexcept override { return "sub"; }
  void backward(BackwardContext& context) override {
    if (context.needs(0)) context.give(0, inputs[0].reduce_grad(context.grad_output()));
    if (context.needs(1)) context.give(1, inputs[1].reduce_grad(neg(context.grad_output())));
  }
};

struct MulBackward final : BinaryNode {
  std::string_view name() const noexcept override { return "mul"; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    if (context.needs(0)) context.give(0, inputs[0].reduce_grad(mul(grad, saved(1))));
    if (context.needs(1)) context.give(1, inputs[1].reduce_grad(mul(grad, saved(0))));
  }
};

struct DivBackward final : BinaryNode {
  std::string_view name() const noexcept override { return "div"; }
  void backward(BackwardContext& context) override {
    const Tensor over = div(context.grad_output(), saved(1));
    if (context.needs(0)) context.give(0, inputs[0].reduce_grad(over));
    // d(a/b)/db = -(a/b)/b
    if (context.needs(1))
      context.give(1, inputs[1].reduce_grad(neg(mul(over, div(saved(0), saved(1))))));
  }
};

struct ExtremeBackward final : BinaryNode {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    const Tensor& a = saved(0);
    const Tensor& b = saved(1);
    // Each gets half at ties. If one is NaN, both get the whole gradient.
    const Tensor share = mul(grad, 1.0 - mul(eq(a, b).to(grad.dtype()), 0.5));
    const auto give = [&](std::size_t input, const Tensor& lost) {
      if (context.needs(input)) {
        context.give(input, inputs[input].reduce_grad(masked(share, eq(lost, false))));
      }
    };
    give(0, fn == BinaryFn::kMinimum ? lt(b, a) : lt(a, b));
    give(1, fn == BinaryFn::kMinimum ? lt(a, b) : lt(b, a));
  }
  BinaryFn fn{};
};

struct ScaleBackward final : ComposedNode {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    context.give(0, factor == 1.0 ? grad : mul(grad, factor));
  }
  BinaryFn fn{};
  double factor = 1.0;
};

// fn(input, number); scales the gradient by `factor`.
Tensor scaled(BinaryFn fn, const Tensor& input, Scalar number, double factor) {
  const std::string_view op = facts(fn).name;
  const DType dtype = computed_in(fn, dtype_with(input, number, op));
  const Tensor out = run_binary(fn, prepare_operands(input, as_residue(number, dtype), dtype, op));
  if (auto* node = record<ScaleBackward>(out, input)) {
    node->fn = fn;
    node->factor = factor;
  }
  return out;
}

Tensor extreme(BinaryFn fn, const Tensor& a, const Tensor& b) {
  const std::string_view op = facts(fn).name;
  const BinaryOperands operands =
      prepare_operands(a, b, computed_in(fn, common_dtype(a, b, op)), op);
  const Tensor out = run_binary(fn, operands);
  if (auto* node = record_binary<ExtremeBackward>(out, a, b)) {
    node->fn = fn;
    node->save_constant(operands.a);  // they are only compared
    node->save_constant(operands.b);
  }
  return out;
}

// Writes fn(self, other) into self, computing in `dtype`.
void write(BinaryFn fn, Tensor& self, const Tensor& other, DType dtype, std::string_view name,
           const Parameters& parameters = {}) {
  computed_in(fn, dtype);
  check_writable(self, broadcast_shapes(self.sizes(), other.sizes(), name), dtype, name);
  const Tensor operand = operand_of(other.detach(), dtype);
  const Device device = self.device();
  if (dtype == self.dtype()) {
    call<Op::kBinary>(device, fn, self, readable_during_write(operand, self), parameters, self);
  } else {
    const NoGradGuard no_grad;
    const BinaryOperands operands = prepare_operands(self.detach(), operand, dtype, name);
    call<Op::kBinary>(device, fn, operands.a, operands.b, parameters, operands.out);
    call<Op::kCopy>(device, operands.out, self);
  }
  self.bump_version();
}

// The checks of every in-place operation. Returns true if it is recorded.
bool check_operands(const Tensor& self, const Tensor& other, std::string_view op) {
  check_defined(other, op, "the operand");
  DL_CHECK(common_device(self, other, op) == self.device(), kInvalidArgument,
           "{}: the tensor is on {}, the operand on {}", op, self.device().str(),
           other.device().str());
  const bool recorded = is_recorded(self, other);
  check_in_place(self, recorded, op);
  check_not_expanded(self, op);
  return recorded;
}

// self = op(self, other), with N as its node. N saves the operands that it needs with their values
// before the write, so self is copied first if N needs it. A node reads `self` for the gradient of
// `other`. It reads `other` for the gradient of `self`, or, with `reads_other`, for both.
template <typename N, bool reads_other>
void write_saving(BinaryFn fn, Tensor& self, const Tensor& other, DType dtype,
                  std::string_view name) {
  const bool recorded = check_operands(self, other, name);
  const bool keeps_self = recorded && needs_grad(other);
  const Tensor before = keeps_self ? self.detach().clone() : Tensor();
  const bool keeps_other = recorded && (reads_other || needs_grad(self));
  const Tensor operand = recorded && may_overlap(self, other) ? other.detach().clone() : other;
  const Ref<N> node = make_node_of<N>(detail::before_write(self), other);
  write(fn, self, operand, dtype, name);
  if (!node) return;
  node->save_input(0, before);
  node->save_input(1, keeps_other ? operand : Tensor());
  detail::attach_written(self, node);
}

Tensor sub_as(const Tensor& a, const Tensor& b, DType dtype) {
  const Tensor out = run_binary_as(BinaryFn::kSub, a, b, dtype);
  record_binary<SubBackward>(out, a, b);
  return out;
}

Tensor div_as(const Tensor& a, const Tensor& b, DType dtype) {
  const Tensor out = run_binary_as(BinaryFn::kDiv, a, b, dtype);
  if (Node* node = record_binary<DivBackward>(out, a, b)) {
    node->save(needs_grad(b) ? a : Tensor());
    node->save(b);
  }
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  const Tensor out = run_binary_as(BinaryFn::kAdd, a, b, common_dtype(a, b, "add"));
  record_binary<AddBackward>(out, a, b);
  return out;
}

Tensor sub(const Tensor& a, const Tensor& b) {
  return sub_as(a, b, common_dtype(a, b, "sub"));
}

Tensor mul(const Tensor& a, const Tensor& b) {
  const Tensor out = run_binary_as(BinaryFn::kMul, a, b, common_dtype(a, b, "mul"));
  if (Node* node = record_binary<MulBackward>(out, a, b)) {
    node->save(needs_grad(b) ? a : Tensor());
    node->save(needs_grad(a) ? b : Tensor());
  }
  return out;
}

Tensor div(const Tensor& a, const Tensor& b) {
  return div_as(a, b, common_dtype(a, b, "div"));
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return extreme(BinaryFn::kMinimum, a, b);
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return extreme(BinaryFn::kMaximum, a, b);
}

Tensor add(const Tensor& a, Scalar b) {
  return scaled(BinaryFn::kAdd, a, b, 1.0);
}

Tensor sub(const Tensor& a, Scalar b) {
  return scaled(BinaryFn::kSub, a, b, 1.0);
}

Tensor mul(const Tensor& a, Scalar b) {
  return scaled(BinaryFn::kMul, a, b, b.as_double());
}

Tensor div(const Tensor& a, Scalar b) {
  return scaled(BinaryFn::kDiv, a, b, 1.0 / b.as_double());
}

Tensor operator-(Scalar a, const Tensor& b) {
  const DType dtype = computed_in(BinaryFn::kSub, dtype_with(b, a, "sub"));
  return detail::finish_composed(sub_as(as_residue(a, dtype), b, dtype), b, "RsubBackward1");
}

Tensor operator/(Scalar a, const Tensor& b) {
  // A reciprocal: autocast treats it like pow.
  if (const auto cast = autocast_of(UnaryFn::kPow, b)) return a / cast(b);
  const DType dtype = computed_in(BinaryFn::kDiv, dtype_with(b, a, "div"));
  return detail::finish_composed(div_as(as_number(a, dtype, "div"), b, dtype), b, "MulBackward0");
}

// In place.

Tensor& Tensor::add_(const Tensor& other, Scalar alpha) {
  get("add_");
  constexpr std::string_view kName = "add_";
  check_operands(*this, other, kName);
  const DType dtype = computed_in(BinaryFn::kAdd, result_type(*this, other, kName));
  DL_CHECK(alpha.kind() != Scalar::Kind::kFloating || is_floating(dtype), kDType,
           "{}: alpha is {} and the result {}, wanted a whole number", kName, alpha.str(),
           name_of(dtype));
  check_fits(alpha, dtype, kName);
  const Ref<AddBackward> node = make_node_of<AddBackward>(detail::before_write(*this), other);
  if (alpha.as_double() == 1.0) {
    write(BinaryFn::kAdd, *this, other, dtype, kName);
  } else {
    const Parameters factor{.a = alpha.as_double(),
                            .whole = static_cast<std::int64_t>(alpha.to<std::uint64_t>())};
    write(BinaryFn::kAddScaled, *this, other, dtype, kName, factor);
  }
  if (node) {
    node->factor = alpha.as_double();
    detail::attach_written(*this, node);
  }
  return *this;
}

Tensor& Tensor::add_(Scalar other) {
  get("add_");
  return add_(as_residue(other, dtype_with(*this, other, "add_")));
}

Tensor& Tensor::sub_(const Tensor& other) {
  get("sub_");
  constexpr std::string_view kName = "sub_";
  check_operands(*this, other, kName);
  const Ref<SubBackward> node = make_node_of<SubBackward>(detail::before_write(*this), other);
  write(BinaryFn::kSub, *this, other, result_type(*this, other, kName), kName);
  if (node) detail::attach_written(*this, node);
  return *this;
}

Tensor& Tensor::sub_(Scalar other) {
  get("sub_");
  return sub_(as_residue(other, dtype_with(*this, other, "sub_")));
}

Tensor& Tensor::mul_(const Tensor& other) {
  get("mul_");
  check_defined(other, "mul_", "the operand");
  write_saving<MulBackward, false>(BinaryFn::kMul, *this, other, result_type(*this, other, "mul_"),
                                   "mul_");
  return *this;
}

Tensor& Tensor::mul_(Scalar other) {
  get("mul_");
  return mul_(as_residue(other, dtype_with(*this, other, "mul_")));
}

Tensor& Tensor::div_(const Tensor& other) {
  get("div_");
  check_defined(other, "div_", "the operand");
  const DType dtype = computed_in(BinaryFn::kDiv, result_type(*this, other, "div_"));
  write_saving<DivBackward, true>(BinaryFn::kDiv, *this, other, dtype, "div_");
  return *this;
}

Tensor& Tensor::div_(Scalar other) {
  get("div_");
  return div_(
      as_number(other, computed_in(BinaryFn::kDiv, dtype_with(*this, other, "div_")), "div_"));
}

}  // namespace dl
