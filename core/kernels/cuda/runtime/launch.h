// Launch: what a kernel function needs to launch kernels: the stream, device limits, temporary
// memory, and the fault record. In the module only. A kernel function makes a Launch, launches its
// kernels on launch.stream(), and checks each launch with DL_CUDA_LAUNCHED.
//
// The wrapper around every kernel function makes the tensors' device the active one. Kernel
// functions never wait for the device, so that graphs can capture them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/kernels/cuda/runtime/active_device.h"
#include "core/kernels/cuda/runtime/errors.h"
#include "core/kernels/cuda/runtime/fault.h"

namespace dl::cuda {

// Temporary device memory in the stream's order: the destructor frees it, although kernels that use
// it may not have run yet.
class Workspace {
 public:
  Workspace(std::size_t bytes, cudaStream_t stream);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Aligned to 512 bytes; null for 0 bytes.
  void* data() const noexcept { return data_; }
  template <typename T>
  T* as() const noexcept {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  int device_;
  void* data_;
  std::size_t bytes_;
};

class Launch {
 public:
  Launch();

  cudaStream_t stream() const noexcept { return stream_; }
  int device() const noexcept { return device_; }
  int sm_count() const noexcept { return limits_->sm_count; }
  int max_threads_per_sm() const noexcept { return limits_->max_threads_per_sm; }
  // 90 for sm_90.
  int compute_capability() const noexcept { return limits_->compute_capability; }
  std::size_t l2_bytes() const noexcept { return limits_->l2_bytes; }
  // For fault::report() in a kernel.
  FaultPlace fault() const noexcept { return {faults_, running_op().index}; }

  struct Limits {
    int sm_count;
    int max_threads_per_sm;
    int compute_capability;
    std::size_t l2_bytes;
  };

 private:
  int device_;
  cudaStream_t stream_;
  const Limits* limits_;
  Fault* faults_;
};

}  // namespace dl::cuda

namespace dl::kernels::cuda {
using dl::cuda::Launch;
using dl::cuda::Workspace;
namespace fault = dl::cuda::fault;

}  // namespace dl::kernels::cuda
