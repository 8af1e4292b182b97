// Progress: the group's progress thread. It reads the sockets, notices peers that are gone, answers
// probes, and drives operations for which no thread waits.
//
// Owned by the Core, which starts and stops it.
#pragma once

#include <poll.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "collectives/shm/core/role.h"

namespace dl::collectives::shm {

class Progress {
 public:
  Progress(Peers& peers, Failure& failure, const Queue& queue, const Callers& callers,
           Wakeup& wakeup, Role& role)
      : peers_(peers),
        failure_(failure),
        queue_(queue),
        callers_(callers),
        wakeup_(wakeup),
        role_(role) {}

  void start();
  // Callers::is_stopping must be set before.
  void stop();
  // True while the thread drives. The thread gives the role back after a chunk at most.
  bool drives() const noexcept { return drives_.load(); }

 private:
  void run();
  // Sleeps until a socket or the Wakeup is ready or a peer has ended, and reads what has come.
  void poll();
  void hear_of_failures();
  void fail_if(std::optional<Cause> found) noexcept;
  // True if operations wait for a driver, and no caller does.
  bool is_wanted() const noexcept {
    return queue_.has_operations() && callers_.helpers.load() == 0 && callers_.visitors.load() == 0;
  }

  Peers& peers_;
  Failure& failure_;
  const Queue& queue_;
  const Callers& callers_;
  Wakeup& wakeup_;
  Role& role_;
  std::vector<pollfd> entries_;  // the thread's
  std::atomic<bool> drives_{false};
  std::thread thread_;
};

}  // namespace dl::collectives::shm
