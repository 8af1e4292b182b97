// A DnnlCall lives while its thread is inside oneDNN.
//
// exit() destroys oneDNN's static objects, and with them the machine code that oneDNN has
// generated. A thread that runs this code would then end the process by SIGSEGV, and the exit code
// would be lost. That was seen in products; a convolution's code belongs to its primitive, but
// oneDNN also computes some convolutions as products. So exit() first waits for the calls under
// way, for at most 10 s, and a thread that wants to begin a call then sleeps until the process is
// gone, or until exit() has slept for 10 s (ExitWatch::stay).
#pragma once

#include <cstdint>

namespace dl::kernels {

class DnnlCall {
 public:
  // Throws kAborted if the process is in exit() and exit() stands still.
  DnnlCall();
  ~DnnlCall();
  DnnlCall(const DnnlCall&) = delete;
  DnnlCall& operator=(const DnnlCall&) = delete;

  // What oneDNN looks at when it chooses code.
  struct Kind {
    std::int64_t operations = 0;  // multiplications
    bool of_convolution = false;
    bool transpose_a = false;
    bool transpose_b = false;
    bool accumulate = false;
  };
  // To be called after a call, which may have been the first of its kind and made static objects of
  // oneDNN: exit() runs the newest handlers first, and ours has to run before those objects are
  // destroyed.
  static void guard_code_of(const Kind& kind) noexcept;

 private:
  struct Calls;
  static Calls& calls();
  static void wait_for_calls() noexcept;
  static void end(Calls& calls) noexcept;
  Calls& calls_;
};

}  // namespace dl::kernels
