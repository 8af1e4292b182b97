// Helpers of op functions with two and three operands: promotion, scalar operands, the result's
// memory, and gradients of operands that were broadcast or promoted.
#pragma once

#include <string_view>

#include "core/ops/common.h"
#include "core/ops/dispatch/kernel_names.h"

namespace dl {

// The tensor in this dtype.
Tensor promoted_to(const Tensor& tensor, DType dtype);

// The result's device. A 0-d tensor on the CPU may be combined with a tensor on a device; the
// kernel gets its value.
Device common_device(const Tensor& a, const Tensor& b, std::string_view op);
// Throws kInvalidArgument if one is undefined, and what result_type() throws.
DType common_dtype(const Tensor& a, const Tensor& b, std::string_view op);
// The dtype in which the row computes operands of a common dtype.
DType computed_in(BinaryFn fn, DType common);

// The dtype of a result of a tensor and a number.
DType dtype_with(const Tensor& tensor, Scalar value, std::string_view op);
// A number as an operand of a comparison with the elements of `like`, in their promoted dtype.
Tensor as_element(const Tensor& like, Scalar value, std::string_view op);
// A number as an operand of arithmetic with this result dtype. It is not rounded to float16 or
// bfloat16: kernels compute these in float32, and 1e5 would be infinite in float16.
Tensor as_number(Scalar value, DType result, std::string_view op);
// as_number() for a sum, a product or an operation on bits: an integer out of range of an integer
// dtype wraps around, as the result does.
Tensor as_residue(Scalar value, DType result);
// A tensor as an operand of arithmetic whose result has this dtype.
Tensor operand_of(const Tensor& tensor, DType result);

// The operands in the form that the kernel needs, and the tensor for the result.
struct BinaryOperands {
  Tensor a;
  Tensor b;
  Tensor out;
};
// Allocates the result of two operands, whose shapes are broadcast.
Tensor place_for(const Tensor& a, const Tensor& b, DType dtype, std::string_view op);
BinaryOperands prepare_operands(const Tensor& a, const Tensor& b, DType dtype, std::string_view op);

// Runs the row's kernel; not recorded.
Tensor run_binary(BinaryFn fn, const BinaryOperands& operands);
Tensor run_binary_as(BinaryFn fn, const Tensor& a, const Tensor& b, DType common);
// For rows with a bool result.
Tensor run_comparison(BinaryFn fn, const Tensor& a, const Tensor& b);

// Converts a gradient to the shape, dtype and device of an input: undoes broadcasting and
// promotion.
struct GradientShare {
  Shape shape;
  DType dtype = DType::kF32;
  Device device{};
  explicit GradientShare(const Tensor& input)
      : shape(input.sizes()), dtype(input.dtype()), device(input.device()) {}
  GradientShare() = default;
  Tensor of(const Tensor& gradient) const;
};

struct BinaryNode : Node {
  GradientShare shares[2];
};

template <typename N>
Ref<N> make_node_of(const Tensor& a, const Tensor& b) {
  Ref<N> node = make_node<N>(a, b);
  if (node) {
    node->shares[0] = GradientShare(a);
    node->shares[1] = GradientShare(b);
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
