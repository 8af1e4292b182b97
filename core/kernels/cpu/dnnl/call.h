// A DnnlCall lives while its thread is inside oneDNN.
//
// exit() destroys oneDNN's static objects, which unmaps the machine code that oneDNN has generated:
// another thread that computes meanwhile would end the process by SIGSEGV, and its exit code would
// be lost. That was seen in products; a convolution's code belongs to its primitive, but oneDNN
// also computes some convolutions as products. So exit() first waits for the calls under way, for
// at most 10 s, and a thread that wants to begin a call then sleeps until the process is gone
// (ExitWatch::stay).
#pragma once

namespace dl::kernels {

class DnnlCall {
 public:
  // Throws kAborted if the process is in exit() and exit() stands still.
  DnnlCall();
  ~DnnlCall();
  DnnlCall(const DnnlCall&) = delete;
  DnnlCall& operator=(const DnnlCall&) = delete;

  // To be called after a call that may have made static objects of oneDNN: exit() runs the newest
  // handlers first, and ours has to run before those objects are destroyed.
  static void guard_new_code() noexcept;
};

}  // namespace dl::kernels
