// Starts a thread of the library: it takes no signals, which belong to the program's threads, and
// if the system refuses it, the error text names the limit.
#pragma once

#include <signal.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"

namespace dl {

// While it lives, this thread takes no signals but those of its own faults, such as SIGSEGV. A
// thread that starts meanwhile keeps that.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked();

 private:
  sigset_t before_;
};

// Throws kIo "WHAT: no thread for it: Resource temporarily unavailable; ... (ulimit -u) is 4096".
template <typename Run>
std::thread make_thread(std::string_view what, Run&& run) {
  const SignalsBlocked blocked;
  try {
    return std::thread(std::forward<Run>(run));
  } catch (const std::system_error& error) {
    throw_error(ErrorKind::kIo, "{}: no thread for it: {}", what,
                spawn_error_text(error.code().value()));
  }
}

}  // namespace dl
