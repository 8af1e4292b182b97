// Products of matrices.
#pragma once

#include "core/args/linear_args.h"
#include "core/tensor/tensor.h"

namespace dl {

struct LinearArgs {
  kernels::Activation activation =
      kernels::Activation::kNone;  // of the result, in one pass where that is faster
};

// activation(input weight^T + bias), over the input's last dimension. On the CPU the bits are those
// of linear() and the activation one after the other; on GPUs sums may be rounded elsewhere.
//   input   [..., in] floating; any strides
//   weight  [out, in]
//   bias    [out], or undefined
// Returns [..., out]. Throws kShape and kDType.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const LinearArgs& args = {});

// The product of a [..., n, k] and b [..., k, m], any strides: [..., n, m]. Integers wrap around
// and run on the CPU only. The leading dimensions are broadcast. A vector a [k] counts as a row, a
// vector b [k] as a column, and the result has no dimension for it, as in PyTorch. Throws kShape
// and kDType.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace dl
