// AtExit: a function that runs when the process ends by exit(), if its object still lives. A group
// uses it to say goodbye to its peers, which would otherwise take the end of the process for a
// failure.
//
// The functions run in the thread that called exit(), the newest object's first. They run before
// the static objects that are older than the first AtExit are destroyed, so libraries that a
// function needs must have been used before that. They do not run on _exit(), on a signal, or in a
// forked child.
//
// Other threads may use the object until the process is gone. Calls that are under way continue
// while the object leaves. A thread that makes a new call, or whose call fails, sleeps until the
// process is gone, because an uncaught error would change the exit code. If a static destructor
// joins such a thread, exit() would hang. So if all objects have left and the thread in exit() has
// used no processor time for 10 s, the sleeping call continues and throws.
//
// A function must not drop the last reference to an object that has an AtExit: this would deadlock,
// because the list of objects is locked. Thread-safety: any thread; an ExitScope belongs to its
// owner.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "core/base/lifetime/ref.h"

namespace dl::collectives {

// A process that exits waits for operations under way at most kExitTime in all, and at most
// kExitQuiet without progress. If an operation is still unfinished, a warning names it; peers that
// need more from the process soon notice its end.
inline constexpr std::chrono::milliseconds kExitQuiet{300};
inline constexpr std::chrono::seconds kExitTime{5};

// If another thread has called exit(), blocks until the process is gone or exit() stands still, as
// described above. Call it without holding a lock.
void stay_if_exiting() noexcept;
// Calls `call`; if it throws, calls stay_if_exiting() first.
template <typename F>
decltype(auto) stay_or_throw(const F& call) {
  try {
    return call();
  } catch (...) {
    stay_if_exiting();  // the locks that `call` held are free again
    throw;
  }
}

class AtExit {
 public:
  // Calls stay_if_exiting(). If the thread in exit() creates an object, that object's function
  // still runs in the same exit().
  explicit AtExit(std::function<void()> leave);
  ~AtExit();
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

  // Calls stay_if_exiting() if the object has begun to leave. Call it before the object begins an
  // operation, without holding a lock.
  void stay_if_leaving() const noexcept {
    if (is_leaving_.load()) stay_if_exiting();
  }
  // True once exit() has called the function: the process ends with this object.
  bool has_left() const noexcept { return has_left_.load(); }
  // For the destructor of a group; `objects` are used by a thread of the group. True if the
  // destructor must not end them. That is so in a forked child, which lacks the thread and must not
  // say goodbye to the peers, and once exit() has called the function. The objects then live as
  // long as the process.
  bool keeps(std::initializer_list<const RefCounted*> objects, bool is_in_child) const;

 private:
  friend void leave_all() noexcept;
  friend class ExitScope;
  void run() const noexcept;
  const std::function<void()> leave_;
  const std::uint64_t number_;
  mutable std::atomic<bool> is_leaving_{false};
  mutable std::atomic<bool> has_left_{false};
};

// Collects the AtExit objects that this thread creates while a Recording lives; leave() runs their
// functions early, newest first.
class ExitScope {
 public:
  class Recording {
   public:
    explicit Recording(ExitScope& scope) noexcept;
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
  };
  // Calls the functions of all recorded objects that still live, the newest first. exit() calls
  // them again.
  void leave() const noexcept;

 private:
  friend class AtExit;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace dl::collectives
