// Anomaly mode: a failing backward pass names the operation that failed and prints its call stack.
//
//     const autograd::AnomalyMode anomaly;
//     const Tensor y = model.forward(x);
//     y.sum().backward();  // "SqrtBackward0: backward made NaN in the gradient of input 0, ..."
//
// While the mode is on, each recorded operation of the thread keeps a backtrace of its call. If an
// operation's backward throws, its backtrace is printed to stderr and the exception goes on. A
// gradient that contains NaN is such a failure: Error{kInvalidArgument} names the operation.
// Functions have names in the backtrace if the program is linked with -rdynamic (CMake:
// ENABLE_EXPORTS), else addresses for addr2line. Use it for debugging: it costs a backtrace per
// operation and a sum per gradient.
//
// Thread-safety: the mode belongs to the thread that sets it; backward() reads it when it starts.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace dl::autograd {

struct AnomalyOptions {
  bool check_nan = true;  // false: only operations whose backward throws are named
};

// These read and set the mode of the calling thread.
bool is_anomaly_enabled() noexcept;
bool is_anomaly_check_nan_enabled() noexcept;
void set_detect_anomaly(bool enabled, AnomalyOptions options = {}) noexcept;

// Switches anomaly mode on for its thread while it lives.
class AnomalyMode {
 public:
  explicit AnomalyMode(AnomalyOptions options = {}) noexcept
      : before_(is_anomaly_enabled()), check_nan_before_(is_anomaly_check_nan_enabled()) {
    set_detect_anomaly(true, options);
  }
  ~AnomalyMode() { set_detect_anomaly(before_, {.check_nan = check_nan_before_}); }
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  bool before_;
  bool check_nan_before_;
};

}  // namespace dl::autograd

namespace dl::detail {

// The call stack of the code that made the Node, the innermost call first; at most kMaxCalls calls,
// of which the two constructors are left out.
class Backtrace {
 public:
  Backtrace();
  // One line per call: "    #0 dl::sqrt(dl::Tensor const&)", or "    #0 ./program+0x1234".
  std::string str() const;

 private:
  static constexpr std::size_t kMaxCalls = 64;
  std::size_t count_ = 0;
  std::unique_ptr<void*[]> calls_;
};

}  // namespace dl::detail
