// While an object lives, the system gives this process no further thread: the stack that a thread
// gets by default is larger than any address space. Limits (ulimit -u, ulimit -v) would depend on
// the user and on what the process has mapped.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <stdexcept>

namespace dl::tests {

class NoThreads {
 public:
  NoThreads() {
    if (::pthread_getattr_default_np(&before_) != 0) throw std::runtime_error("pthread attributes");
    set_stack(std::size_t{1} << 50);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  static void set_stack(std::size_t bytes) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, bytes);
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
  }

  pthread_attr_t before_;
};

}  // namespace dl::tests
