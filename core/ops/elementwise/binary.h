// Helpers of op functions with two and three operands: promotion, scalar operands, the result's
// memory, and gradients of operands that were broadcast or promoted.
#pragma once

#include <string_view>

#include "core/ops/common.h"
#include "core/ops/dispatch/kernel_names.h"

namespace dl {

// The tensor in this dtype.
Tensor promoted_to(const Tensor& tensor, DType dtype);

// The device of both operands, and of the result. If one operand is a 0-d tensor on the CPU, the
// other may be on a GPU; the result is then on the GPU, and the kernel gets the 0-d tensor's value.
Device common_device(const Tensor& a, const Tensor& b, std::string_view op);
// The dtype to which both operands are promoted. Throws kInvalidArgument if one is undefined, and
// what result_type() throws.
DType common_dtype(const Tensor& a, const Tensor& b, std::string_view op);
// The dtype in which `fn` computes operands that are promoted to `common`.
DType computed_in(BinaryFn fn, DType common);

// The result's dtype if one operand is a tensor and the other is a number.
DType dtype_with(const Tensor& tensor, Scalar value, std::string_view op);
// A number to be compared with the elements of `like`: a 0-d tensor of dtype dtype_with(like,
// value, op).
Tensor as_element(const Tensor& like, Scalar value, std::string_view op);
// A number as an operand of arithmetic with this result dtype. It is not rounded to float16 or
// bfloat16: kernels compute these in float32, and 1e5 would be infinite in float16.
Tensor as_number(Scalar value, DType result, std::string_view op);
// as_number() for a sum, a product or an operation on bits: if an integer does not fit into an
// integer dtype, it wraps around, as the result does.
Tensor as_residue(Scalar value, DType result);
// A tensor, converted to an operand of arithmetic with this result dtype. A 0-d tensor on the CPU
// is not rounded to float16 or bfloat16, as a number is not in as_number().
Tensor operand_of(const Tensor& tensor, DType result);

// The operands in the form that the kernel needs, and the tensor for the result.
struct BinaryOperands {
  Tensor a;
  Tensor b;
  Tensor out;
};
// Allocates the result of two operands, whose shapes are broadcast.
Tensor empty_broadcast(const Tensor& a, const Tensor& b, DType dtype, std::string_view op);
// Converts both operands with operand_of(), and allocates their result.
BinaryOperands prepare_operands(const Tensor& a, const Tensor& b, DType dtype, std::string_view op);

// Runs the kernel of `fn`. Autograd does not record it.
Tensor run_binary(BinaryFn fn, const BinaryOperands& operands);
// Prepares the operands, and runs `fn` in computed_in(fn, common).
Tensor run_binary_as(BinaryFn fn, const Tensor& a, const Tensor& b, DType common);
// Promotes the operands, and runs a `fn` whose result is bool.
Tensor run_comparison(BinaryFn fn, const Tensor& a, const Tensor& b);

// binary_rules.cc: these run `fn`, and record it if its gradient is a rule there. `a` and `b` are
// what the user gave.
Tensor run_recorded(BinaryFn fn, const Tensor& a, const Tensor& b, const BinaryOperands& operands);
// Prepares the operands, and computes in computed_in(fn, common).
Tensor run_recorded(BinaryFn fn, const Tensor& a, const Tensor& b, DType common);
// The number as an operand of `fn` in the dtype that `fn` computes in, so that checks for 0 see the
// kernel's value.
Tensor number_beside(const Tensor& operand, Scalar number, BinaryFn fn);
// fn(a, b) with a number b, which is `number` as a tensor: number_beside(a, b, fn).
Tensor run_with_number_b(BinaryFn fn, const Tensor& a, Scalar b, const Tensor& number);
// fn(a, b) with a number a, which is operands.a as a tensor.
Tensor run_with_number_a(BinaryFn fn, const Tensor& b, const BinaryOperands& operands);

// The shape, dtype and device of an input (PyTorch's InputMetadata). reduce_grad() converts a
// gradient to them: it undoes broadcasting and promotion.
struct InputMetadata {
  Shape shape;
  DType dtype = DType::kF32;
  Device device{};
  explicit InputMetadata(const Tensor& input)
      : shape(input.sizes()), dtype(input.dtype()), device(input.device()) {}
  InputMetadata() = default;
  Tensor reduce_grad(const Tensor& gradient) const;
};

struct BinaryNode : ComposedNode {
  InputMetadata inputs[2];
};

template <typename N>
Ref<N> make_node_of(const Tensor& a, const Tensor& b) {
  Ref<N> node = make_node<N>(a, b);
  if (node) {
    node->inputs[0] = InputMetadata(a);
    node->inputs[1] = InputMetadata(b);
  }
  return node;
}

template <typename N>
N* record_binary(const Tensor& out, const Tensor& a, const Tensor& b) {
  const Ref<N> node = make_node_of<N>(a, b);
  if (node) detail::attach(out, node, 0);
  return node.get();
}

}  // namespace dl
