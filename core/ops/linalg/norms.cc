#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linalg/linalg.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace dl::linalg {
namespace {

constexpr std::string_view kName = "linalg.matrix_norm";

struct MatrixDims {
  std::int64_t rows;
  std::int64_t columns;
};

MatrixDims matrix_dims(const Tensor& input, const DimList& dims) {
  check_defined(input, kName, "the input");
  check_floating(input, kName);
  DL_CHECK(dims.dims().size() == 2, kInvalidArgument, "{}: {} names {} dimensions, wanted two",
           kName, dims.dims().str(), dims.dims().size());
  const std::size_t rank = input.sizes().size();
  const auto rows = static_cast<std::int64_t>(wrap_dim(dims.dims()[0], rank, kName));
  const auto columns = static_cast<std::int64_t>(wrap_dim(dims.dims()[1], rank, kName));
  DL_CHECK(rows != columns, kInvalidArgument, "{}: {} names dimension {} twice", kName,
           dims.dims().str(), rows);
  return {rows, columns};
}

// The singular values as the last dimension, with the matrices' dimensions as size 1 before them.
Tensor values_of(const Tensor& input, MatrixDims dims) {
  return svdvals(movedim(input, {dims.rows, dims.columns}, {-2, -1}));
}

// The result for which both dimensions were removed.
Tensor with_dims(const Tensor& result, MatrixDims dims, ReduceOptions options) {
  if (!options.keepdim) return result;
  return dl::detail::drop_base(result.unsqueeze(std::min(dims.rows, dims.columns))
                                   .unsqueeze(std::max(dims.rows, dims.columns)));
}

Tensor largest(const Tensor& input, std::int64_t dim, bool smallest) {
  return smallest ? amin(input, dim) : amax(input, dim);
}

}  // namespace

Tensor vector_norm(const Tensor& input, double ord, const DimList& dims, ReduceOptions options) {
  return dl::norm(input, ord, dims, options);
}

Tensor matrix_norm(const Tensor& input, std::string_view ord, const DimList& dims,
                   ReduceOptions options) {
  const MatrixDims matrix = matrix_dims(input, dims);
  if (ord == "fro") return dl::norm(input, 2, Dims{matrix.rows, matrix.columns}, options);
  DL_CHECK(ord == "nuc", kInvalidArgument, "{}: ord is \"{}\", wanted \"fro\", \"nuc\" or a number",
           kName, ord);
  return with_dims(sum(values_of(input, matrix), -1), matrix, options);
}

Tensor matrix_norm(const Tensor& input, double ord, const DimList& dims, ReduceOptions options) {
  const MatrixDims matrix = matrix_dims(input, dims);
  const double size = std::abs(ord);
  const bool smallest = ord < 0;
  if (size == 2) {
    return with_dims(largest(values_of(input, matrix), -1, smallest), matrix, options);
  }
  DL_CHECK(size == 1 || std::isinf(size), kInvalidArgument,
           "{}: ord is {}, wanted 1, 2, infinity, one of these with -, \"fro\" or \"nuc\"", kName,
           ord);
  const std::int64_t summed = size == 1 ? matrix.rows : matrix.columns;
  const std::int64_t other = size == 1 ? matrix.columns : matrix.rows;
  const Tensor sums = sum(abs(input), summed);
  return with_dims(largest(sums, other > summed ? other - 1 : other, smallest), matrix, options);
}

Tensor norm(const Tensor& input) {
  return dl::norm(input);
}

Tensor norm(const Tensor& input, double ord, const DimList& dims, ReduceOptions options) {
  check_defined(input, "linalg.norm", "the input");
  const std::size_t count = dims.dims().empty() ? input.sizes().size() : dims.dims().size();
  DL_CHECK(count == 1 || count == 2, kShape,
           "linalg.norm: {} dimensions, wanted one for a vector's norm or two for a matrix's",
           count);
  if (count == 1) return vector_norm(input, ord, dims, options);
  return dims.dims().empty() ? matrix_norm(input, ord, {-2, -1}, options)
                             : matrix_norm(input, ord, dims, options);
}

Tensor norm(const Tensor& input, std::string_view ord, const DimList& dims, ReduceOptions options) {
  return dims.dims().empty() ? matrix_norm(input, ord, {-2, -1}, options)
                             : matrix_norm(input, ord, dims, options);
}

}  // namespace dl::linalg
