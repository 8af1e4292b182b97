// A kernel that does nothing: whether the device at hand can run what was compiled.
#include "core/kernels/cuda/runtime/probe.h"

namespace dl::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t probe_kernel() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, nothing);
}

}  // namespace dl::cuda
