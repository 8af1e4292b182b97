// Runtime over the CUDA runtime library, and helpers of the module. In the module only.
#pragma once

#include <cuda_runtime_api.h>

#include "core/device/cuda/module/module.h"
#include "core/kernels/cuda/runtime/fault.h"

namespace dl::cuda {

// Allows the calling thread to make calls that are forbidden during captures by other threads.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// The module's one Runtime; `name_of_op` gives an Op's name by its number. Throws kNotFound if
// there is no device, or if the driver or a library is too old.
Runtime& start_runtime(const Host* host, const char* (*name_of_op)(int));
const Host& opener() noexcept;

// The device's fault record; created at first use.
Fault* faults_of(int device);

// Loads an empty kernel on the active device; the error tells whether the device can run the
// module's code.
cudaError_t probe_kernel();

}  // namespace dl::cuda
