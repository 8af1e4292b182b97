// The error text for operations without a CUDA kernel.
#pragma once

#include "core/base/error.h"
#include "core/elementwise/list.h"

namespace dl::kernels::cuda {

// For a row of a list of operations.
template <typename Facts>
void check_is_there(const Facts& row) {
  DL_CHECK(row.cuda != CudaKernel::kMissing, kNotImplemented, "{}: not on CUDA yet; use x.cpu()",
           row.name);
}

}  // namespace dl::kernels::cuda
