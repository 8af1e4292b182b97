// Products of vectors and matrices, all made of matmul() (linear.h), which also says what is
// refused. Integers of one dtype are multiplied and summed exactly as long as the result's dtype
// holds it, and wrap around otherwise; they have no gradient and run on the CPU only.
#pragma once

#include "core/ops/linear/linear.h"
#include "core/tensor/tensor.h"

namespace dl {

Tensor mm(const Tensor& a, const Tensor& b);   // [n, k] x [k, m]
Tensor bmm(const Tensor& a, const Tensor& b);  // [b, n, k] x [b, k, m]
Tensor mv(const Tensor& a, const Tensor& b);   // [n, k] x [k]
Tensor dot(const Tensor& a, const Tensor& b);  // [k] x [k], without dimensions
// a[i] b[j]: [n, m]
Tensor outer(const Tensor& a, const Tensor& b);

// beta input + alpha (a b); the input is broadcast to [n, m].
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});

}  // namespace dl
