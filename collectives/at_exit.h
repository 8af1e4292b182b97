// What an object does when its process ends by exit() and it still lives: a group says goodbye to
// its peers, which would otherwise take the end of its process for a failure.
//
// The functions run in the thread that called exit(), the newest object's first, before objects of
// static storage that are older than the first AtExit are destroyed: libraries that a function
// needs must have been used before that. Not for _exit(), a signal, or a forked child. Other
// threads may still use the object meanwhile. A function must not drop the last reference to an
// object that has an AtExit. Thread-safety: any thread; a Leaving belongs to its owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace dl::collectives {

// How long a process that exits waits for operations under way: as long as they move, but no
// longer than all of this time. Peers that need more of it than comes hear of its end soon.
inline constexpr std::chrono::milliseconds kExitQuiet{300};
inline constexpr std::chrono::seconds kExitTime{5};

class AtExit {
 public:
  explicit AtExit(std::function<void()> leave);
  ~AtExit();
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  friend void leave_all() noexcept;
  friend class Leaving;
  void run() const noexcept;
  const std::function<void()> leave_;
  const std::uint64_t number_;
};

// Leaving before the exit: of all that a thread makes while it has a Recording of this.
class Leaving {
 public:
  class Recording {
   public:
    explicit Recording(Leaving& leaving) noexcept;
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
  };
  // Calls the hooks of all objects that still live, the newest first. Exit calls them again.
  void leave() const noexcept;

 private:
  friend class AtExit;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace dl::collectives
