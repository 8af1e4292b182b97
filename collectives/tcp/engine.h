// Engine: one progress thread for all TCP groups of a process.
//
// Only one thread at a time drives: it holds the role, a flag that is only ever tried, never waited
// for, and while it does so it alone touches the groups' sockets and operations. Usually that is a
// caller that waits for an operation (it saves two thread switches, wait_policy.h); otherwise the
// engine's own thread, which sleeps in poll() until a socket has something to say. What the driver
// does never blocks and runs no user code, so that an operation stuck in one group delays no other.
//
// Requests reach the driver through an inbox. Whoever posts one either becomes the driver or knows
// that the present driver looks into the inbox once more after it has given the role back.
//
// While callers drive, and between two operations of theirs that follow each other soon, the thread
// stays out of their way: where ranks outnumber cores each of its looks costs one of them its core.
// It is parked then, and at most a millisecond behind where they leave something to it; a caller
// that stops to drive what it waits for calls it at once.
//
// Thread-safety: all public members from any thread. Hold a Ref in everything that may wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/group_error.h"
#include "collectives/identity.h"
#include "collectives/tcp/operation.h"
#include "collectives/wait_policy.h"
#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/ref.h"
#include "core/base/unique_fd.h"

namespace dl::collectives::tcp {

class Link;

// What has been seen of a rank's process, over all groups that share an engine.
struct Signs {
  Deadline::Clock::time_point heard{};
  bool is_reachable = false;  // its host has acknowledged something of late
};

class Engine final : public RefCounted {
 public:
  using Clock = Deadline::Clock;
  // Starts the thread, which blocks all signals. Throws kIo.
  Engine();

  struct Request {
    enum class Kind : std::uint8_t { kAdd, kStart, kAbort, kFail, kRetire, kLeave } kind;
    Ref<Core> core;
    Ref<Operation> operation{};
    std::string text{};                     // with kAbort
    Cause cause{};                          // with kFail
    std::optional<std::uint64_t> spared{};  // with kFail
  };
  // `drive`: become the driver for one round where nobody is; otherwise the thread is woken.
  void post(Request request, bool drive);

  // Drives, or watches others drive, until the operation is over (true) or the policy says sleep.
  bool help(const Operation& operation, const WaitPolicy& policy, Deadline deadline);

  // Drives one round, unless somebody else does.
  void poll() {
    if (!take_role()) return;
    drive();
    give_role_back();
  }
  // Runs `look` while nobody else drives.
  void inspect(const std::function<void()>& look);

  // Driver: a link's socket is watched until it is said otherwise: closing it is not enough where
  // a child of this process has inherited it.
  void watch(Link& link);
  void unwatch(Link& link) noexcept;
  // Driver.
  Signs signs_of(const Identity& who) const noexcept;
  // Driver: where bytes to be reduced are received, a slice at a time.
  std::byte* staging() noexcept { return staging_.data(); }

 private:
  ~Engine() override;
  bool take_role() noexcept { return !driving_.exchange(true); }
  void give_role_back();
  // One round: inbox, readiness, every group once. True where there is more to do at once.
  bool drive();
  void execute(Request& request);
  void run();
  void sleep();
  void park();
  void unpark() noexcept;
  // Something goes on, and no caller drives it.
  bool is_left_alone() const noexcept {
    return helpers_.load() == 0 && (under_way_.load() || has_requests_.load());
  }
  void wake() noexcept;

  UniqueFd epoll_;
  UniqueFd event_;
  ParentOnlyFds parent_only_;  // through which a child would reach into the parent's

  std::atomic<bool> driving_{false};
  std::vector<Ref<Core>> cores_;    // driver
  std::vector<std::byte> staging_;  // driver

  std::mutex inbox_mutex_;
  std::vector<Request> inbox_;
  std::atomic<bool> has_requests_{false};

  std::atomic<int> helpers_{0};
  std::atomic<unsigned> helps_{0};      // callers that have begun to wait
  std::atomic<bool> under_way_{false};  // an operation, or the end of a group, after the last round
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<Clock::rep> next_timer_;  // when the groups want to be looked at without any event
  std::atomic<Clock::rep> sleeps_until_{0};  // of the thread, while it is `sleeping_`
  std::mutex park_mutex_;
  std::condition_variable unpark_;
  std::thread thread_;
};

}  // namespace dl::collectives::tcp
