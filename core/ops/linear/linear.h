// Products of matrices.
#pragma once

#include "core/args/linear_args.h"
#include "core/tensor/tensor.h"

namespace dl {

struct LinearArgs {
  kernels::Activation activation =
      kernels::Activation::kNone;  // of the result; fused if that is faster
};

// activation(input weight^T + bias), over the input's last dimension. On the CPU the result has the
// same bits as linear() followed by the activation; on GPUs rounding may differ.
//   input   [..., in] floating; any strides
//   weight  [out, in]
//   bias    [out], or undefined
// Returns [..., out]. Throws kShape and kDType.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const LinearArgs& args = {});

// The product of a [..., n, k] and b [..., k, m], any strides: [..., n, m]. Integers wrap around
// and are supported on the CPU only. The leading dimensions are broadcast. A vector a [k] counts as
// a row, a vector b [k] as a column, and the result lacks that dimension, as in PyTorch. Throws
// kShape and kDType.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace dl
