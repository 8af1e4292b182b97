// Runtime over the CUDA runtime library, and what the module's parts share. In the module only.
#pragma once

#include <cuda_runtime_api.h>

#include "core/device/cuda/module/module.h"
#include "core/kernels/cuda/runtime/fault.h"

namespace dl::cuda {

// Lets the calling thread make calls that a capture elsewhere in the process need not know of.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// The module's one Runtime; `name_of_op` gives an Op's name by its number. Throws kNotFound where
// there is no device, or a driver or library that is too old.
Runtime& start_runtime(const Host* host, const char* (*name_of_op)(int));
const Host& opener() noexcept;

// The device's place for faults; made at first use.
Fault* faults_of(int device);

}  // namespace dl::cuda
