#include "core/ops/elementwise/binary.h"

#include <utility>

#include "core/ops/dispatch/takes.h"
#include "core/tensor/scalar/promote.h"

namespace dl {
namespace {

DType dtype_of_number(DType result) {
  return is_floating(result) && size_of(result) < size_of(DType::kF32) ? DType::kF32 : result;
}

bool is_number(const Tensor& tensor) {
  return tensor.dim() == 0 && !tensor.is_cuda();
}

}  // namespace

Tensor promoted_to(const Tensor& tensor, DType dtype) {
  return tensor.dtype() == dtype ? tensor : tensor.to(dtype);
}

Device common_device(const Tensor& a, const Tensor& b, std::string_view op) {
  if (a.is_cuda() && !b.is_cuda() && b.dim() == 0) return a.device();
  if (b.is_cuda() && !a.is_cuda() && a.dim() == 0) return b.device();
  check_same_device(a, b, op);
  return a.device();
}

DType common_dtype(const Tensor& a, const Tensor& b, std::string_view op) {
  check_defined(a, op, "the first operand");
  check_defined(b, op, "the second operand");
  return result_type(a, b, op);
}

DType computed_in(BinaryFn fn, DType common) {
  return computed_dtype(common, facts(fn).takes, facts(fn).name);
}

DType dtype_with(const Tensor& tensor, Scalar value, std::string_view op) {
  check_defined(tensor, op, "the first operand");
  return result_type(tensor, value);
}

Tensor as_element(const Tensor& like, Scalar value, std::string_view op) {
  return scalar_tensor(value, dtype_with(like, value, op), op);
}

Tensor as_number(Scalar value, DType result, std::string_view op) {
  return scalar_tensor(value, dtype_of_number(result), op);
}

Tensor as_residue(Scalar value, DType result) {
  const Tensor number = empty({}, {.dtype = dtype_of_number(result)});
  call<Op::kFill>(number.device(), number, value);
  return number;
}

Tensor operand_of(const Tensor& tensor, DType result) {
  if (tensor.dtype() == result) return tensor;
  return promoted_to(tensor, is_number(tensor) ? dtype_of_number(result) : result);
}

Tensor empty_broadcast(const Tensor& a, const Tensor& b, DType dtype, std::string_view op) {
  const Device device = common_device(a, b, op);
  return empty_for(broadcast_shapes(a.sizes(), b.sizes(), op), {&a, &b}, dtype, device);
}

BinaryOperands prepare_operands(const Tensor& a, const Tensor& b, DType dtype,
                                std::string_view op) {
  // The layout of the result follows the converted operands, as in PyTorch.
  Tensor left = operand_of(a, dtype);
  Tensor right = operand_of(b, dtype);
  Tensor out = empty_broadcast(left, right, dtype, op);
  return {std::move(left), std::move(right), std::move(out)};
}

Tensor run_binary(BinaryFn fn, const BinaryOperands& operands) {
  call<Op::kBinary>(operands.out.device(), fn, operands.a, operands.b, Parameters{}, operands.out);
  return operands.out;
}

Tensor run_binary_as(BinaryFn fn, const Tensor& a, const Tensor& b, DType common) {
  return run_binary(fn, prepare_operands(a, b, computed_in(fn, common), facts(fn).name));
}

Tensor run_comparison(BinaryFn fn, const Tensor& a, const Tensor& b) {
  const std::string_view name = facts(fn).name;
  const DType dtype = computed_in(fn, common_dtype(a, b, name));
  Tensor left = promoted_to(a, dtype);
  Tensor right = promoted_to(b, dtype);
  Tensor out = empty_broadcast(left, right, DType::kBool, name);
  return run_binary(fn, {std::move(left), std::move(right), std::move(out)});
}

Tensor InputMetadata::reduce_grad(const Tensor& gradient) const {
  return promoted_to(sum_to(gradient, shape), dtype).to(device);
}

}  // namespace dl
