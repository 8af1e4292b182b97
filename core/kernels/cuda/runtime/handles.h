// A thread's handles of cuBLASLt and cuDNN on a device, with the plans made with them. Created at
// the first use.
//
// They are never destroyed: when a process ends, the driver may shut down before a thread's objects
// are destroyed, and a handle's destructor calls the driver. Threads that run CUDA operations are
// few and live long.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <array>
#include <cstddef>
#include <memory>

#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/cuda/runtime/real_runtime.h"

namespace dl::kernels::cuda {

// The calling thread's T for the active device.
template <typename T>
T& of_this_thread() {
  thread_local std::array<T*, dl::cuda::kMostDevices> all{};
  T*& mine = all.at(static_cast<std::size_t>(dl::cuda::active_device()));
  if (mine == nullptr) {
    const dl::cuda::RelaxedCapture relaxed;  // creating a handle allocates, even during a capture
    mine = new T;
  }
  return *mine;
}

// cuDNN's handle, by of_this_thread().
class DnnHandle {
 public:
  DnnHandle() { DL_CUDNN_CHECK(cudnnCreate(&handle_)); }
  cudnnHandle_t get() const noexcept { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

// Descriptors of the two libraries, which are destroyed with their owner. make() creates the
// handle.
template <typename Descriptor, auto destroy>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (value_ != nullptr) destroy(value_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Descriptor get() const noexcept { return value_; }
  Descriptor* out() noexcept { return &value_; }

 private:
  Descriptor value_ = nullptr;
};

}  // namespace dl::kernels::cuda
