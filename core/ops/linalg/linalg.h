// torch.linalg: norms, determinants, inverses, systems of equations and decompositions.
//
// Matrices are the last two dimensions; the dimensions before them are a batch. Dtypes float32 and
// float64; others throw kDType. All have a gradient, but for modes of qr(). LAPACK computes them on
// the CPU, and tensors on a GPU are copied there and back; without its library (Debian's package
// liblapack3) all but norms throw kNotFound. Throws kShape for inputs that are no matrices, or not
// square if they have to be. Nothing here can be recorded by compile() (nn/compile/compile.h) but
// norms.
#pragma once

#include <string_view>

#include "core/tensor/tensor.h"

namespace dl::linalg {

// (sum of |x|^ord)^(1 / ord) over `dims`, or over all dimensions: dl::norm().
Tensor vector_norm(const Tensor& input, double ord = 2, const DimList& dims = {},
                   ReduceOptions options = {});
// Norms of the matrices along two dimensions: "fro" (the root of the sum of squares), "nuc" (the
// sum of the singular values); 1 and infinity (the largest sum of magnitudes of a column, of a row)
// and 2 (the largest singular value), and the same with - for the smallest.
Tensor matrix_norm(const Tensor& input, std::string_view ord = "fro",
                   const DimList& dims = {-2, -1}, ReduceOptions options = {});
Tensor matrix_norm(const Tensor& input, double ord, const DimList& dims = {-2, -1},
                   ReduceOptions options = {});
// vector_norm() of one dimension, matrix_norm() of two. Without `ord` the 2-norm of all elements.
Tensor norm(const Tensor& input);
Tensor norm(const Tensor& input, double ord, const DimList& dims = {}, ReduceOptions options = {});
Tensor norm(const Tensor& input, std::string_view ord, const DimList& dims = {},
            ReduceOptions options = {});

// Throws kInvalidArgument with the number of the first singular matrix.
Tensor inv(const Tensor& input);
// X with A X = B: B is [..., n, k], or [..., n], if that is the shape of A without its last
// dimension. Batches are broadcast. Throws as inv().
Tensor solve(const Tensor& a, const Tensor& b);
// Its gradient throws kInvalidArgument for matrices with an infinity or NaN.
Tensor det(const Tensor& input);
// The determinant as sign and log |det|; 0 and -infinity for a singular matrix.
struct SlogdetResult {
  Tensor sign;
  Tensor logabsdet;
};
SlogdetResult slogdet(const Tensor& input);

struct CholeskyOptions {
  bool upper = false;
};
// L with A = L L^T of symmetric, positive definite matrices, or L^T; only the lower triangle of A
// is read (the upper one for L^T). Throws kInvalidArgument with the number of the first matrix
// that is not positive definite.
Tensor cholesky(const Tensor& input, CholeskyOptions options = {});

struct QrResult {
  Tensor q;  // undefined with mode "r"
  Tensor r;
};
// A = Q R with orthonormal columns of Q and an upper triangle R.
//   mode "reduced"   [m, k] and [k, n], k = min(m, n)
//        "complete"  [m, m] and [m, n]
//        "r"         R of "reduced" alone
// "r" has no gradient, and "complete" has one if m <= n. Without one, qr() throws kNotImplemented
// for an input that is recorded; PyTorch throws in the backward pass.
QrResult qr(const Tensor& input, std::string_view mode = "reduced");

struct SvdOptions {
  bool full_matrices = true;  // U [m, m] and Vh [n, n]; else [m, k] and [k, n], k = min(m, n)
};
struct SvdResult {
  Tensor u;
  Tensor s;  // [k], the largest first
  Tensor vh;
};
// A = U diag(S) Vh. Gradients are those of the first k vectors. They are infinite if two singular
// values are equal, and only those of results that do not depend on the vectors' signs are
// meaningful. Throws kInvalidArgument for matrices with an infinity or NaN.
SvdResult svd(const Tensor& input, SvdOptions options = {});
// The singular values alone.
Tensor svdvals(const Tensor& input);

}  // namespace dl::linalg
