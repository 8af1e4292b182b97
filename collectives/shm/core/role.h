// Role: the right to drive, which one thread at a time holds. Usually a caller that waits for an
// operation holds it. Otherwise the progress thread does, and gives it back as soon as a caller
// wants it. take() returns the Driver, or nothing if another thread holds the role.
//
// Owned by the Core; owns the Driver, which is reached only through a Held. Any thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <memory>

#include "collectives/shm/driver/driver.h"

namespace dl::collectives::shm {

class Role {
  struct GiveBack {
    Role* role = nullptr;
    void operator()(Driver*) const noexcept { role->give_back(); }
  };

 public:
  // Gives the role back when it is destroyed, and ends operations if the group broke meanwhile.
  using Held = std::unique_ptr<Driver, GiveBack>;

  Role(Peers& peers, Failure& failure, Records& records, Queue& queue, const Callers& callers,
       Wakeup& wakeup, const WaitPolicy& policy)
      : peers_(peers),
        failure_(failure),
        queue_(queue),
        driver_(peers, failure, records, queue, callers, wakeup, policy) {}

  // Empty if another thread holds it.
  [[nodiscard]] Held take() noexcept {
    return Held(try_take() ? &driver_ : nullptr, GiveBack{this});
  }
  // Waits until a thread that drives gives it back.
  [[nodiscard]] Held take_soon() noexcept {
    while (!try_take()) {
      ring(peers_.own().bell);
      ::sched_yield();
    }
    return Held(&driver_, GiveBack{this});
  }
  bool is_taken() const noexcept { return is_taken_.load(); }
  // After a failure that was found outside the driver: ends operations. If another thread holds the
  // role, it ends them when it gives the role back.
  void end_if_broken() noexcept {
    if (try_take()) give_back();
  }

 private:
  bool try_take() noexcept { return !is_taken_.exchange(true); }
  // Sequentially consistent on both sides: either end_if_broken() sees the role free, or this load
  // sees the failure.
  void give_back() noexcept {
    is_taken_.store(false);
    while (has_to_end() && try_take()) {
      driver_.end_all();
      is_taken_.store(false);
    }
  }
  bool has_to_end() const noexcept {
    return failure_.is_broken() &&
           (failure_.has_to_end() || (failure_.is_closed() && queue_.has_operations()));
  }

  Peers& peers_;
  Failure& failure_;
  Queue& queue_;
  std::atomic<bool> is_taken_{false};
  Driver driver_;
};

}  // namespace dl::collectives::shm
