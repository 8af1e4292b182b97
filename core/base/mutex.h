// Mutex and Lock: std::mutex and std::unique_lock that clang's thread-safety analysis follows.
//
//     Mutex mutex_;
//     int count_ DL_GUARDED_BY(mutex_) = 0;
//     ...
//     const Lock lock(mutex_);
//     ++count_;
//
// clang refuses an access without the mutex (-Wthread-safety); the sanitizers' builds are clang's.
// Other compilers see plain classes.
#pragma once

#include <mutex>

#if defined(__clang__)
#define DL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define DL_THREAD_ATTRIBUTE(x)
#endif

// The mutex that guards a variable; of a pointer, what it points to.
#define DL_GUARDED_BY(mutex) DL_THREAD_ATTRIBUTE(guarded_by(mutex))
#define DL_PT_GUARDED_BY(mutex) DL_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
// A function, or a lambda after its parameters, whose caller holds the mutex.
#define DL_REQUIRES(mutex) DL_THREAD_ATTRIBUTE(requires_capability(mutex))

// For the few functions that lock in a way that the analysis cannot follow.
#define DL_NO_THREAD_SAFETY_ANALYSIS DL_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace dl {

class DL_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() DL_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  bool try_lock() DL_THREAD_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }
  void unlock() DL_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class Lock;
  std::mutex mutex_;
};

// Holds a Mutex while it lives; may let it go in between.
class DL_THREAD_ATTRIBUTE(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) DL_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~Lock() DL_THREAD_ATTRIBUTE(release_capability()) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() DL_THREAD_ATTRIBUTE(acquire_capability()) { lock_.lock(); }
  void unlock() DL_THREAD_ATTRIBUTE(release_capability()) { lock_.unlock(); }

  // For std::condition_variable::wait(), which holds the mutex again when it returns. Its
  // predicate is a lambda with DL_REQUIRES.
  std::unique_lock<std::mutex>& native() noexcept { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace dl
