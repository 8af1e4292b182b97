// DL_KERNEL declares a kernel for all devices at once:
//
//     // y = softmax(x) along a dimension.
//     DL_KERNEL(void, softmax, (const Tensor& x, std::int64_t dim, const Tensor& y))
//
// Use it in namespace dl::kernels, in a header of core/kernels/declared/. It declares
// dl::kernels::cpu::softmax and dl::kernels::cuda::softmax. Their definitions are in folders of
// core/kernels/cpu/ and core/kernels/cuda/. core/ops/op_list.def says which devices have the
// kernel. If one of these has no definition, the linker names it.
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
