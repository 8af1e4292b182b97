// Modes: the thread's settings of autograd. Code outside core/autograd uses the guards of
// grad_mode.h and anomaly.h.
#pragma once

namespace dl::detail {

struct Modes {
  bool grad = true;
  bool inference = false;
  bool anomaly = false;
  bool check_nan = false;  // in anomaly mode
};
extern constinit thread_local Modes modes;

}  // namespace dl::detail
