// Products of vectors, matrices and more dimensions, composed of matmul() (linear.h), which
// documents the errors. Products and sums of integers are exact, or wrap around if they overflow
// the dtype; they have no gradient and are supported on the CPU only.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/ops/linear/linear.h"
#include "core/tensor/tensor.h"

namespace dl {

Tensor mm(const Tensor& a, const Tensor& b);   // [n, k] x [k, m]
Tensor bmm(const Tensor& a, const Tensor& b);  // [b, n, k] x [b, k, m]
Tensor mv(const Tensor& a, const Tensor& b);   // [n, k] x [k]
Tensor dot(const Tensor& a, const Tensor& b);  // [k] x [k], a 0-d result
// a[i] b[j]: [n, m]
Tensor outer(const Tensor& a, const Tensor& b);

// beta input + alpha (a b); the input is broadcast to the product's shape. With beta = 0 it is not
// read.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});
// With the product outer(a, b).
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});
// With the product bmm(a, b), and with its sum over the batch.
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});

// Sums the products of a and b over dimensions of both: over the last `dims` of a and the first of
// b, or over the listed ones, of which the i-th of a goes with the i-th of b. The result has a's
// other dimensions, then b's. A dimension of size 1 goes with any size.
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const DimList& dims_of_a,
                 const DimList& dims_of_b);

// Einstein's sum: einsum("bij,bjk->bik", a, b). A letter of either case names a dimension of each
// operand; a letter that the result lacks is summed over, one that an operand has twice takes its
// diagonal, and "..." stands for any number of dimensions, which are broadcast. Without "->" the
// result has the dimensions of "..." and then, in alphabetical order (upper case first), the
// letters that occur once. Spaces are ignored. Operands are multiplied from the left, by batched
// matrix products if something is summed over. Throws kInvalidArgument for an equation that is not
// one or does not fit the operands' number, and kShape for sizes that do not fit.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
inline Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  return einsum(equation, std::span<const Tensor>(operands));
}
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()));
}
template <std::same_as<Tensor>... Operands>
Tensor einsum(std::string_view equation, const Tensor& first, const Operands&... others) {
  return einsum(equation, {first, others...});
}

}  // namespace dl
