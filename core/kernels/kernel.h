// DL_KERNEL declares a kernel for all devices at once:
//
//     // y = softmax(x) along a dimension.
//     DL_KERNEL(void, softmax, (const Tensor& x, std::int64_t dim, const Tensor& y))
//
// It is used in namespace dl::kernels, in the header of a family in core/kernels/declared/, and
// declares dl::kernels::cpu::softmax and dl::kernels::cuda::softmax. Their definitions are in
// core/kernels/cpu/<family>/ and core/kernels/cuda/<family>/. core/ops/op_list.def says which
// devices have the kernel; the linker names a definition that is missing.
#pragma once

#include "core/tensor/tensor.h"

// NOLINTBEGIN(bugprone-macro-parentheses): a result type and a parameter list
#define DL_KERNEL(result, name, parameters) \
  namespace cpu {                           \
  result name parameters;                   \
  }                                         \
  namespace cuda {                          \
  result name parameters;                   \
  }
// NOLINTEND(bugprone-macro-parentheses)
