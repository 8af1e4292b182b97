// The device that the calling thread's CUDA calls go to. In the module only.
//
// CUDA counts a thread that has named no device as one of device 0, and makes a context there, of
// hundreds of MiB, at the thread's first call, at a cudaSetDevice(0), and so by a library's "back
// to the device of before". Ranks that compute on other GPUs must get none there. So no call of the
// runtime is made but in the scope of an OnDevice, or after settle_device(): a thread's first one
// gives it a device that the process uses, which it keeps. A thread that has named one, by its own
// cudaSetDevice() too, has it again after each of dlrun's calls; only to have named device 0 before
// the first of them looks like having named none.
#pragma once

namespace dl::cuda {

// The device of the innermost OnDevice; there is one around every kernel function.
int active_device() noexcept;

class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int device_;
  int outer_;   // of the scope around this one
  int before_;  // the thread's own
};

// Before calls that name a stream, an event or memory and no device. What fails here does so again
// in the call.
void settle_device() noexcept;
// `device` is the thread's own from now on.
void adopt_device(int device) noexcept;

}  // namespace dl::cuda
