#include "core/ops/linear/product.h"

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"

namespace dl {
namespace {

void check_dims(const Tensor& a, std::int64_t of_a, const Tensor& b, std::int64_t of_b,
                std::string_view op) {
  check_defined(a, op, "the first operand");
  check_defined(b, op, "the second operand");
  DL_CHECK(a.dim() == of_a && b.dim() == of_b, kShape,
           "{}: the operands have shapes {} and {}, wanted {} and {} dimensions", op,
           a.sizes().str(), b.sizes().str(), of_a, of_b);
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_dims(a, 2, b, 2, "mm");
  return matmul(a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check_dims(a, 3, b, 3, "bmm");
  DL_CHECK(a.size(0) == b.size(0), kShape, "bmm: {} matrices times {}; matmul broadcasts",
           a.size(0), b.size(0));
  return detail::finish_composed(matmul(a, b), a, "BmmBackward0");
}

Tensor mv(const Tensor& a, const Tensor& b) {
  check_dims(a, 2, b, 1, "mv");
  return matmul(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  check_dims(a, 1, b, 1, "dot");
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_dims(a, 1, b, 1, "outer");
  return mul(a.unsqueeze(1), b);
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options) {
  check_defined(input, "addmm", "the input");
  check_dims(a, 2, b, 2, "addmm");
  const Shape shape{a.size(0), b.size(1)};
  DL_CHECK(broadcast_shapes(input.sizes(), shape, "addmm") == shape, kShape,
           "addmm: an input of shape {} does not fit to a product of shape {}", input.sizes().str(),
           shape.str());
  constexpr const char* kGradFn = "AddmmBackward0";
  const Tensor product = matmul(a, b);
  const Tensor scaled = options.alpha == 1 ? product : mul(product, options.alpha);
  if (options.beta == 0) return detail::finish_composed(scaled, input, kGradFn);
  return detail::finish_composed(add(scaled, options.beta == 1 ? input : mul(input, options.beta)),
                                 input, kGradFn);
}

}  // namespace dl
