// DnnlCall: marks its thread as inside oneDNN, so that exit() waits for it.
//
// exit() destroys oneDNN's static objects, and with them the machine code that oneDNN has
// generated. A thread that runs this code would then crash with SIGSEGV, and the exit code would be
// lost. This happens in matrix products, and in convolutions that oneDNN computes as products (the
// code of other convolutions belongs to their primitives). So exit() first waits up to 10 s for
// running calls. A thread that wants to begin a call meanwhile sleeps until the process is gone, or
// until exit() has slept for 10 s (ExitWatch::stay).
#pragma once

#include <cstdint>

namespace dl::kernels {

class DnnlCall {
 public:
  // Throws kAborted if the process is in exit() and exit() makes no progress.
  DnnlCall();
  ~DnnlCall();
  DnnlCall(const DnnlCall&) = delete;
  DnnlCall& operator=(const DnnlCall&) = delete;

  // The properties of a call by which oneDNN chooses its code.
  struct Kind {
    std::int64_t operations = 0;  // multiplications
    bool of_convolution = false;
    bool transpose_a = false;
    bool transpose_b = false;
    bool accumulate = false;
  };
  // Call it after each oneDNN call. The first call of a kind may create static objects of oneDNN.
  // exit() runs the newest handlers first, and ours has to run before those objects are destroyed.
  static void guard_code_of(const Kind& kind) noexcept;

 private:
  struct Calls;
  static Calls& calls();
  static void wait_for_calls() noexcept;
  static void end(Calls& calls) noexcept;
  Calls& calls_;
};

}  // namespace dl::kernels
