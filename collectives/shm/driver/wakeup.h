// Wakeup: wakes the group's progress thread, at once or after a millisecond (soon). A thread that
// is woken with each call competes with callers, who usually wait for their operations themselves.
//
// Owned by the Core. Any thread.
#pragma once

#include <atomic>

#include "core/base/system/unique_fd.h"

namespace dl::collectives::shm {

class Wakeup {
 public:
  Wakeup();

  void now() noexcept;
  void soon() noexcept;
  // After a call: soon, or at once if earlier callers did not come back to wait.
  void after_call() noexcept;

  // The progress thread has taken up an operation for which no caller waited: the next call wakes
  // it at once.
  void note_taken_up() noexcept;
  // A caller has waited and left nothing behind.
  void note_waited() noexcept;

  // Readable when the progress thread is to wake, which then clears them.
  int event() const noexcept { return event_.get(); }
  int timer() const noexcept { return timer_.get(); }
  void clear_event() noexcept;
  void clear_timer() noexcept;

 private:
  UniqueFd event_;
  UniqueFd timer_;
  std::atomic<bool> timer_is_armed_{false};
  // True if the thread is woken with each call: set when it had to take up an operation late,
  // cleared when a caller came before it.
  std::atomic<bool> wakes_at_once_{false};
  std::atomic<bool> has_taken_up_{false};
};

}  // namespace dl::collectives::shm
