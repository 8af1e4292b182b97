// WatchedError: an error that CUDA does not report, thrown by calls that wait for the device.
//
// When NCCL aborts a running collective, the stream continues with garbage and CUDA reports
// success. A WatchedError with an error makes every later wait for its device throw that error:
// synchronize(), cpu(), item() and copies to the host. Its owner is the data that may be garbage,
// not the communicator: DDP attaches one to the parameters that it trains
// (core/autograd/graph/leaf.h), so it ends when the parameters are destroyed or loaded again.
//
// It costs only a check in each wait for the device. Thread-safety: any thread.
#pragma once

#include "core/base/first_error.h"

namespace dl::cuda {

class WatchedError final : public FirstError {
 public:
  // `error`: the error to watch, set by the code that detects it; null: makes its own.
  WatchedError(int device, Ref<FirstError> error);
  ~WatchedError() override;

 private:
  friend std::exception_ptr error_on(int device) noexcept;
  const int device_;
};

// The error of a WatchedError of this device, or null. Call it after each wait for the device.
std::exception_ptr error_on(int device) noexcept;

}  // namespace dl::cuda
