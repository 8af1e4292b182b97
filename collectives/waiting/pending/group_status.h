// GroupStatus: how far a group has come, the first cause that broke it, and the last collective
// that the broken group still completes (ProcessGroup::fail).
//
// A part of a group's Core. A thread that finds a failure breaks the group here; then the driver
// ends operations. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "collectives/call/descriptor.h"
#include "collectives/call/identity.h"
#include "collectives/record/recorder.h"
#include "collectives/waiting/group_error.h"
#include "core/base/mutex.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives {

class GroupStatus {
 public:
  // `self`: this rank, which owns the group. `log`: lives as long as this object. `reports`: the
  // agent is told of a cause that blames a rank, and looks for the first cause at that rank. A
  // cause that blames none is this rank's own.
  GroupStatus(std::string group, Identity self, record::GroupRecorder& log, bool reports)
      : group_(std::move(group)), self_(std::move(self)), log_(log), reports_(reports) {}

  // True if the agent is told how this group fares.
  bool reports() const noexcept { return reports_; }
  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  bool is_broken() const noexcept { return is_broken_.load(); }
  // The first cause; in a forked child, an error that says so. Null: the group is not broken.
  std::exception_ptr error() const noexcept;
  void throw_if_broken() const;
  // The error with which this call is refused; null: it is not. A broken group accepts collectives
  // up to completes_until(). `sequence`: the number that the call has, or would have. After a
  // mismatch the agent is told of the refused call.
  std::exception_ptr refusal(const Descriptor& called, std::uint64_t sequence) const;
  void throw_if_refused(const Descriptor& called, std::uint64_t sequence) const {
    if (is_broken() || is_in_child()) throw_refusal(called, sequence);
  }
  // After a mismatch: the operation that this rank called under the mismatch's sequence number.
  std::string own_call() const { return is_broken() ? own_call_ : std::string(); }
  // The last collective that is complete on this rank.
  std::uint64_t completed() const noexcept { return completed_.load(); }
  std::uint64_t completes_until() const noexcept { return completes_until_.load(); }
  // True if the group is broken, and a collective with this number has to end.
  bool ends(std::uint64_t sequence) const noexcept {
    return is_broken() && sequence > completes_until();
  }
  // True if the group is broken, and no collective completes any more.
  bool is_closed() const noexcept { return is_broken() && completed() >= completes_until(); }

  // For the driver.
  void note_completed(std::uint64_t sequence) noexcept {
    completed_.store(sequence, std::memory_order_release);
  }
  // Breaks the group; false if it is broken already. The agent gets a cause of this rank's own.
  // Then tell() tells the other ranks, the recorder logs the cause, and the agent gets one that
  // blames another rank, with `own_call`. Only then is_broken() is true.
  template <typename Tell>
  bool break_with(Cause cause, std::uint64_t completes_until, std::string own_call,
                  const Tell& tell) {
    const Lock lock(mutex_);
    if (is_broken()) return false;
    begin_to_break(cause, completes_until, std::move(own_call));
    tell(std::as_const(cause));
    end_to_break(cause);
    return true;
  }
  // Lowers completes_until(), to no less than completed(), and calls tell(). Returns false if that
  // changes nothing.
  template <typename Tell>
  bool complete_only(std::uint64_t until, const Tell& tell) {
    const Lock lock(mutex_);
    if (!lower(until)) return false;
    tell();
    return true;
  }
  // Runs say() unless the group is broken. The group cannot break meanwhile.
  template <typename Say>
  void unless_broken(const Say& say) {
    const Lock lock(mutex_);
    if (!is_broken()) say();
  }

 private:
  void throw_refusal(const Descriptor& called, std::uint64_t sequence) const;
  void begin_to_break(Cause& cause, std::uint64_t completes_until, std::string own_call)
      DL_REQUIRES(mutex_);
  void end_to_break(const Cause& cause) DL_REQUIRES(mutex_);
  bool lower(std::uint64_t until) noexcept DL_REQUIRES(mutex_);

  const std::string group_;
  const Identity self_;
  record::GroupRecorder& log_;
  const bool reports_;
  const ForkMark fork_mark_{};

  Mutex mutex_;  // held to break the group and to lower completes_until_
  // Written before is_broken_.
  std::exception_ptr error_;
  std::string own_call_;
  std::atomic<bool> is_broken_{false};
  std::atomic<std::uint64_t> completes_until_{0};
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace dl::collectives
