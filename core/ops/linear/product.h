// Products of vectors and matrices, all composed of matmul() (linear.h), which documents the
// errors. Products and sums of integers are exact, or wrap around if they overflow the dtype; they
// have no gradient and are supported on the CPU only.
#pragma once

#include "core/ops/linear/linear.h"
#include "core/tensor/tensor.h"

namespace dl {

Tensor mm(const Tensor& a, const Tensor& b);   // [n, k] x [k, m]
Tensor bmm(const Tensor& a, const Tensor& b);  // [b, n, k] x [b, k, m]
Tensor mv(const Tensor& a, const Tensor& b);   // [n, k] x [k]
Tensor dot(const Tensor& a, const Tensor& b);  // [k] x [k], a 0-d result
// a[i] b[j]: [n, m]
Tensor outer(const Tensor& a, const Tensor& b);

// beta input + alpha (a b); the input is broadcast to [n, m].
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});

}  // namespace dl
