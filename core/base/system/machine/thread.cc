#include "core/base/system/machine/thread.h"

#include <pthread.h>

namespace dl {

SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t blocked;
  ::sigfillset(&blocked);
  // If a thread's own fault is blocked, the program's handler, or a sanitizer's, does not run.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    ::sigdelset(&blocked, fault);
  }
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace dl
