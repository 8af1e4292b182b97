// WatchedError: an error that a device does not notice itself, thrown by calls that wait for the
// device.
//
// A collective that is ended under way lets the stream behind it go on: what is computed from then
// on, and what it has been written into (parameters, above all), is worth nothing, and CUDA calls
// it a success. While such a WatchedError lives and has an error, synchronize(), and with it cpu(),
// item() and copies to the host, throw that error instead of showing what lies on the device. It
// belongs to what may have been spoilt, not to who did it: DDP hangs one on the parameters that it
// trains (core/autograd/graph/leaf.h), so that it is gone with them, or when they are loaded anew.
//
// Costs nothing but in a wait for the device. Thread-safety: any thread.
#pragma once

#include "core/base/first_error.h"

namespace dl::cuda {

class WatchedError final : public FirstError {
 public:
  // `error`: the error to watch, set by the code that notices it; null: one of its own.
  WatchedError(int device, Ref<FirstError> error);
  ~WatchedError() override;

 private:
  friend std::exception_ptr error_on(int device) noexcept;
  const int device_;
};

// The error of one that lives there, or null. To be asked behind a wait for the device.
std::exception_ptr error_on(int device) noexcept;

}  // namespace dl::cuda
