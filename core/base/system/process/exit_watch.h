// ExitWatch: lets other threads notice that the process is in exit().
//
// exit() runs handlers and destroys static objects while other threads go on. A library whose
// objects are then gone registers a handler with std::atexit() that calls begin() and, when it has
// done its part, end(). Its functions check has_begun() and call stay().
//
// Constant-initialised and trivially destroyed, so that a static object may be used until the
// process is gone. Thread-safety: any thread.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace dl {

class ExitWatch {
 public:
  // Called on the thread in exit().
  void begin() noexcept;
  // The exit handler has finished.
  void end() noexcept { is_done_.store(true); }
  // In a forked child of a process in exit(): the child itself does not exit.
  void reset() noexcept;

  bool has_begun() const noexcept { return exiting_thread_.load() != 0; }
  bool is_exiting_thread() const noexcept;
  // Blocks the calling thread until the process is gone, unless it is the one in exit(). A static
  // destructor that joins the thread would wait for ever. So stay() returns if the handler is done
  // and the thread in exit() has slept for 10 s without using its processor. Later calls on the
  // same thread then return at once.
  void stay() const noexcept;

 private:
  std::atomic<pid_t> exiting_thread_{0};
  std::atomic<bool> is_done_{false};
};

}  // namespace dl
