// Engine: one progress thread for all TCP groups of a process.
//
// One thread at a time drives the engine: the one that holds the Role. Only this thread touches the
// groups' sockets and operations. No thread waits for the Role, except for a moment in inspect().
// Usually the driver is a caller that waits for an operation, which saves two thread switches
// (wait_policy.h); otherwise it is the engine's own thread, which sleeps in poll() until a socket
// is ready. The driver never blocks and runs no user code, so an operation that is stuck in one
// group delays no other.
//
// Requests reach the driver through an inbox. The thread that posts a request may become the
// driver. Otherwise the engine's thread takes the request, or the current driver, which checks the
// inbox once more after it gives the role back.
//
// The engine's thread is parked while callers drive, and for a moment after that. If ranks
// outnumber cores, each of its polls would take a core from a rank. A parked thread takes over
// abandoned work at most a millisecond late; a caller that stops driving an unfinished operation
// wakes it at once.
//
// Thread-safety: all public members from any thread. A caller holds a Ref while it waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <thread>
#include <vector>

#include "collectives/join/group_options.h"
#include "collectives/tcp/state/operation.h"
#include "collectives/tcp/traffic/links.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/wait_policy.h"
#include "core/base/error.h"
#include "core/base/lifetime/ref.h"
#include "core/base/mutex.h"
#include "core/base/system/process/fork.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::tcp {

class Core;
class Driver;

// The right to drive, which one thread at a time holds. Core::driver() takes it as a proof, so that
// only its holder reaches the Driver of a group.
class Role {
 public:
  explicit Role(std::atomic<bool>& is_held) noexcept : is_held_(is_held) {}
  // Tries, and never waits.
  bool take() noexcept { return !is_held_.exchange(true); }
  void give_back() noexcept { is_held_.store(false); }

 private:
  std::atomic<bool>& is_held_;
};

class Engine final : public TcpEngine {
 public:
  using Clock = Deadline::Clock;
  // Starts the thread, which blocks all signals. Throws kIo.
  Engine();

  struct Request {
    enum class Kind : std::uint8_t { kAdd, kStart, kFail, kRetire, kLeave } kind;
    Ref<Core> core;
    Ref<Operation> operation{};                      // with kStart
    Cause cause{};                                   // with kFail
    std::optional<std::uint64_t> completes_until{};  // with kFail
  };
  // `drive`: drive one round if no other thread drives. If this thread does not drive, it wakes the
  // engine's thread.
  void post(Request request, bool drive);

  // Drives, or spins while another thread drives. Returns true once the operation is over, and
  // false at the deadline or when the policy says to sleep.
  bool help(const Operation& operation, const WaitPolicy& policy, Deadline deadline);

  // Drives one round if no other thread drives.
  void poll();
  // Runs `look` while no other thread drives.
  void inspect(const std::function<void(const Role&)>& look);

  // Driver.
  Links& links() noexcept { return links_; }

 private:
  ~Engine() override;
  // Gives the role back, and drives on if requests have come meanwhile.
  void give_back(Role& role);
  // One round: the inbox, socket readiness, every group once. True if there is more to do at once.
  bool drive(const Role& role);
  void execute(Request& request, const Role& role);
  void run();
  void sleep();
  void park();
  void unpark() noexcept;
  // True if work is left and no caller drives it.
  bool is_left_alone() const noexcept {
    return helpers_.load() == 0 && (under_way_.load() || has_requests_.load());
  }
  void wake() noexcept;

  UniqueFd event_;
  ParentOnlyFds parent_only_;

  std::atomic<bool> driving_{false};
  struct Group {
    Ref<Core> core;
    Driver* driver;
  };
  Links links_;                // driver
  std::vector<Group> groups_;  // driver

  Mutex inbox_mutex_;
  std::vector<Request> inbox_ DL_GUARDED_BY(inbox_mutex_);
  std::atomic<bool> has_requests_{false};

  std::atomic<int> helpers_{0};
  std::atomic<unsigned> helps_{0};  // callers that have begun to wait
  // After the last round a group still had an operation to finish, or was still leaving.
  std::atomic<bool> under_way_{false};
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<Clock::rep> next_timer_;  // when a group must be polled next even without an event
  std::atomic<Clock::rep> sleeps_until_{0};  // end of the thread's sleep, while `sleeping_`
  Mutex park_mutex_;  // guards no field: no wake-up comes between the last check and the sleep
  std::condition_variable unpark_;
  std::thread thread_;
};

}  // namespace dl::collectives::tcp
