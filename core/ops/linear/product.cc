#include "core/ops/linear/product.h"

#include <algorithm>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"

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

void check_batches(const Tensor& a, const Tensor& b, std::string_view op) {
  check_dims(a, 3, b, 3, op);
  DL_CHECK(a.size(0) == b.size(0), kShape, "{}: {} matrices times {}; matmul broadcasts", op,
           a.size(0), b.size(0));
}

// beta input + alpha product
Tensor added(const Tensor& input, const Tensor& product, AddmmOptions options, std::string_view op,
             const char* grad_fn) {
  check_defined(input, op, "the input");
  DL_CHECK(broadcast_shapes(input.sizes(), product.sizes(), op) == product.sizes(), kShape,
           "{}: an input of shape {} does not fit to a product of shape {}", op,
           input.sizes().str(), product.sizes().str());
  const Tensor scaled = options.alpha == 1 ? product : mul(product, options.alpha);
  if (options.beta == 0) return detail::finish_composed(scaled, input, grad_fn);
  return detail::finish_composed(add(scaled, options.beta == 1 ? input : mul(input, options.beta)),
                                 input, grad_fn);
}

// Dimensions that count from the front, each named once.
Dims wrapped(const DimList& list, const Tensor& tensor, std::string_view op) {
  Dims dims;
  for (const std::int64_t given : list.dims()) {
    const auto d = static_cast<std::int64_t>(wrap_dim(given, tensor.sizes().size(), op));
    DL_CHECK(std::ranges::find(dims, d) == dims.end(), kInvalidArgument,
             "{}: {} names dimension {} twice", op, list.dims().str(), d);
    dims.push_back(d);
  }
  return dims;
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_dims(a, 2, b, 2, "mm");
  return matmul(a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check_batches(a, b, "bmm");
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
  check_dims(a, 2, b, 2, "addmm");
  return added(input, matmul(a, b), options, "addmm", "AddmmBackward0");
}

Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options) {
  check_dims(a, 2, b, 1, "addmv");
  return added(input, matmul(a, b), options, "addmv", "AddmvBackward0");
}

Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options) {
  check_dims(a, 1, b, 1, "addr");
  return added(input, outer(a, b), options, "addr", "AddrBackward0");
}

Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options) {
  check_batches(a, b, "baddbmm");
  return added(input, matmul(a, b), options, "baddbmm", "BaddbmmBackward0");
}

Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options) {
  check_batches(a, b, "addbmm");
  DL_CHECK(a.size(2) == b.size(1), kShape,
           "addbmm: shapes {} and {} do not fit: {} columns, but {} rows", a.sizes().str(),
           b.sizes().str(), a.size(2), b.size(1));
  // One product: the matrices side by side times the matrices one below another.
  const std::int64_t inner = a.size(0) * a.size(2);
  const Tensor product =
      matmul(a.permute({1, 0, 2}).reshape({a.size(1), inner}), b.reshape({inner, b.size(2)}));
  return added(input, product, options, "addbmm", "AddbmmBackward0");
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims) {
  check_defined(a, "tensordot", "the first operand");
  check_defined(b, "tensordot", "the second operand");
  DL_CHECK(dims >= 0 && dims <= a.dim() && dims <= b.dim(), kInvalidArgument,
           "tensordot: dims is {}, the operands have {} and {} dimensions", dims, a.dim(), b.dim());
  Dims of_a;
  Dims of_b;
  for (std::int64_t i = 0; i < dims; ++i) {
    of_a.push_back(a.dim() - dims + i);
    of_b.push_back(i);
  }
  return tensordot(a, b, of_a, of_b);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const DimList& dims_of_a,
                 const DimList& dims_of_b) {
  constexpr std::string_view kName = "tensordot";
  check_defined(a, kName, "the first operand");
  check_defined(b, kName, "the second operand");
  Dims of_a = wrapped(dims_of_a, a, kName);
  Dims of_b = wrapped(dims_of_b, b, kName);
  DL_CHECK(of_a.size() == of_b.size(), kInvalidArgument,
           "tensordot: {} dimensions of the first operand, {} of the second", of_a.size(),
           of_b.size());
  Tensor left = a;
  Tensor right = b;
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const std::int64_t size = a.size(of_a[i]);
    const std::int64_t other = b.size(of_b[i]);
    DL_CHECK(size == other || size == 1 || other == 1, kShape,
             "tensordot: dimension {} of shape {} goes with dimension {} of shape {}", of_a[i],
             a.sizes().str(), of_b[i], b.sizes().str());
    if (size == 1 && other != 1) right = sum(right, of_b[i], {.keepdim = true});
    if (other == 1 && size != 1) left = sum(left, of_a[i], {.keepdim = true});
    inner *= size == 1 || other == 1 ? 1 : size;
  }
  Shape shape;
  const auto outside = [&](const Tensor& operand, const Dims& summed, std::int64_t& count) {
    Dims dims;
    for (std::int64_t d = 0; d < operand.dim(); ++d) {
      if (std::ranges::find(summed, d) != summed.end()) continue;
      dims.push_back(d);
      shape.push_back(operand.size(d));
      count *= operand.size(d);
    }
    return dims;
  };
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  Dims left_order = outside(left, of_a, rows);
  Dims right_order = of_b;
  for (const std::int64_t d : of_a) left_order.push_back(d);
  for (const std::int64_t d : outside(right, of_b, columns)) right_order.push_back(d);
  const Tensor product = matmul(left.permute(left_order).reshape({rows, inner}),
                                right.permute(right_order).reshape({inner, columns}));
  return detail::drop_base(product.view(shape));
}

}  // namespace dl
