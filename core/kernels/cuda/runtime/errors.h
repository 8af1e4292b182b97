// Error checks of CUDA calls, in the module only; the text has the call, the operation and its
// tensors. DL_CUDA_CHECK wraps a call of the runtime; DL_CUDA_LAUNCHED("kernel") follows the launch
// of a kernel.
//
// "cudaMemsetAsync: invalid argument (cudaErrorInvalidValue) in relu(f32[2, 3] on cuda:0, ...)".
// A kernel's error is reported by a later call; with CUDA_LAUNCH_BLOCKING=1, by its own launch. Any
// thread may use these.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

namespace dl::cuda {

// The operation that the calling thread runs; the wrappers of all kernels set it.
struct RunningOp {
  int index = -1;  // the Op's number; -1: none
  const char* name = nullptr;
  void (*describe)(const void* arguments, std::string& text) = nullptr;
  const void* arguments = nullptr;
};
RunningOp& running_op() noexcept;

// Throws kInternal. `call` is the source text of the call; the error shows the function's name.
[[noreturn]] void throw_cuda(cudaError_t error, const char* call);
[[noreturn]] void throw_cublas(cublasStatus_t status, const char* call);
[[noreturn]] void throw_cudnn(cudnnStatus_t status, const char* call);

}  // namespace dl::cuda

#define DL_CUDA_CHECK(call)                     \
  do {                                          \
    const cudaError_t dl_status = (call);       \
    if (dl_status != cudaSuccess) [[unlikely]]  \
      ::dl::cuda::throw_cuda(dl_status, #call); \
  } while (false)
#define DL_CUDA_LAUNCHED(name)                        \
  do {                                                \
    const cudaError_t dl_status = cudaGetLastError(); \
    if (dl_status != cudaSuccess) [[unlikely]]        \
      ::dl::cuda::throw_cuda(dl_status, name);        \
  } while (false)
#define DL_CUBLAS_CHECK(call)                            \
  do {                                                   \
    const cublasStatus_t dl_status = (call);             \
    if (dl_status != CUBLAS_STATUS_SUCCESS) [[unlikely]] \
      ::dl::cuda::throw_cublas(dl_status, #call);        \
  } while (false)
#define DL_CUDNN_CHECK(call)                            \
  do {                                                  \
    const cudnnStatus_t dl_status = (call);             \
    if (dl_status != CUDNN_STATUS_SUCCESS) [[unlikely]] \
      ::dl::cuda::throw_cudnn(dl_status, #call);        \
  } while (false)
