#include "core/kernels/cuda/runtime/active_device.h"

#include <cuda_runtime_api.h>

#include <atomic>

#include "core/kernels/cuda/runtime/errors.h"

namespace dl::cuda {
namespace {

constexpr int kNone = -1;

constinit std::atomic<int> used_by_process{kNone};  // the first one
constinit thread_local bool has_own = false;  // the thread has named a device or was given one
constinit thread_local int innermost = kNone;

}  // namespace

int active_device() noexcept {
  return innermost;
}

OnDevice::OnDevice(int device) : device_(device), outer_(innermost), before_(device) {
  // A nested scope for the same device need not set it, because only dlrun's code runs inside a
  // scope.
  if (device != outer_) {
    int own = kNone;
    DL_CUDA_CHECK(cudaGetDevice(&own));
    if (own == 0 && !has_own) own = kNone;
    if (own != device) DL_CUDA_CHECK(cudaSetDevice(device));
    if (own != kNone) before_ = own;
    has_own = true;
    int none = kNone;
    used_by_process.compare_exchange_strong(none, device, std::memory_order_relaxed);
  }
  innermost = device;
}

OnDevice::~OnDevice() {
  innermost = outer_;
  // If this fails the device is lost, and its next use throws.
  if (before_ != device_) cudaSetDevice(before_);
}

void ensure_device() noexcept {
  const int device = used_by_process.load(std::memory_order_relaxed);
  if (has_own || device == kNone) return;
  int own = kNone;
  if (cudaGetDevice(&own) != cudaSuccess) return;
  has_own = own != 0 || cudaSetDevice(device) == cudaSuccess;
}

void adopt_device(int device) noexcept {
  has_own = cudaSetDevice(device) == cudaSuccess || has_own;
}

}  // namespace dl::cuda
