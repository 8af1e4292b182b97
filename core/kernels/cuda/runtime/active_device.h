// The device of the calling thread's CUDA calls. In the module only.
//
// CUDA's default device of a thread is 0. It creates a context of hundreds of MiB there at the
// thread's first call or at cudaSetDevice(0), also if a library only restores the previous device.
// Ranks that compute on other GPUs must not create one. So every call of the runtime is inside the
// scope of an OnDevice or follows ensure_device(). The first of these on a thread sets a device
// that the process uses already. If the thread has set a device, also by its own cudaSetDevice(),
// each dlrun call restores it afterwards; but cudaSetDevice(0) before the first dlrun call cannot
// be told from no call.
#pragma once

namespace dl::cuda {

// The device of the innermost OnDevice; every kernel function runs inside one.
int active_device() noexcept;

class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int device_;
  int outer_;   // the enclosing scope's
  int before_;  // the thread's own device
};

// Call it before CUDA calls that take a stream, an event or memory but no device. An error here
// occurs again in the call.
void ensure_device() noexcept;
// Makes `device` the thread's own.
void adopt_device(int device) noexcept;

}  // namespace dl::cuda
