// An empty kernel, to check that the device can run the compiled code.
#include "core/kernels/cuda/runtime/real_runtime.h"

namespace dl::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t probe_kernel() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, nothing);
}

}  // namespace dl::cuda
