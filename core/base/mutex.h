// Mutex and Lock: std::mutex and std::unique_lock that clang's thread-safety analysis follows.
//
//     Mutex mutex_;
//     int count_ DL_GUARDED_BY(mutex_) = 0;
//     ...
//     const Lock lock(mutex_);
//     ++count_;
//
// clang refuses an access without the mutex (-Wthread-safety); the sanitizer builds use clang.
// Other compilers see plain classes.
#pragma once

#include <mutex>

#if defined(__clang__)
#define DL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define DL_THREAD_ATTRIBUTE(x)
#endif

// DL_GUARDED_BY names the mutex that guards a variable. DL_PT_GUARDED_BY names the mutex that
// guards the object to which a pointer points.
#define DL_GUARDED_BY(mutex) DL_THREAD_ATTRIBUTE(guarded_by(mutex))
#define DL_PT_GUARDED_BY(mutex) DL_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
// The caller of this function must hold the mutex. In a lambda, it stands after the parameters.
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

// Locks a Mutex in its constructor and unlocks it in its destructor. unlock() releases it early,
// and lock() takes it again.
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
