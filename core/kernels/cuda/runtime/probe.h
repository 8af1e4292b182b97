#pragma once

#include <cuda_runtime_api.h>

namespace dl::cuda {

// Loads an empty kernel on the active device; the error tells whether the device can run the
// module's code.
cudaError_t probe_kernel();

}  // namespace dl::cuda
