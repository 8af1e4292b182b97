#pragma once

#include <cuda_runtime_api.h>

namespace dl::cuda {

// Whether the active device can run the module's code: the error of loading a kernel.
cudaError_t probe_kernel();

}  // namespace dl::cuda
