// Failure: the first cause that any rank finds. It breaks the group. This rank writes the cause
// into its own Block, which the others read; after that no rank writes into a caller's buffer.
//
// Operations of a broken group up to the number `completes_until` still complete
// (ProcessGroup::fail). The number only decreases.
//
// Owned by the Core. Each thread that finds a failure says so here; the driver then ends operations
// (has_to_end). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "collectives/record/recorder.h"
#include "collectives/shm/peers/peers.h"
#include "core/base/mutex.h"

namespace dl::collectives::shm {

class Failure {
 public:
  // `reports`: tells the agent if another rank is to blame, so that it looks for the first cause
  // there.
  Failure(Peers& peers, record::GroupRecorder& log, bool reports)
      : peers_(peers), log_(log), reports_(reports) {}

  bool is_poisoned() const noexcept { return poisoned_.load(); }
  // True if the group is broken and no operation completes any more.
  bool is_closed() const noexcept {
    return is_poisoned() && completed_.load() >= completes_until_.load();
  }
  // True if a collective with this number has to end.
  bool ends(std::uint64_t sequence) const noexcept {
    return is_poisoned() && sequence > completes_until_.load();
  }
  // True if the driver has to end operations, because completes_until was set or lowered.
  bool has_to_end() const noexcept { return has_to_end_.load(); }
  void begin_ending() noexcept { has_to_end_.store(false); }
  // True if nothing may be begun now: the group is closed, or is about to end operations.
  bool stops() const noexcept { return is_closed() || has_to_end(); }

  // The last collective that succeeded. Driver.
  void note_completed(std::uint64_t sequence) noexcept {
    completed_.store(sequence, std::memory_order_release);
  }

  // Null if the group is not broken.
  std::exception_ptr cause() const noexcept;
  // Breaks the group; the first cause counts. `completes_until`: all operations that are over, if
  // not given. The caller gives the driver an occasion to end operations.
  void fail(Cause cause, std::optional<std::uint64_t> completes_until = {}) noexcept;
  // Runs work(). An exception breaks the group instead of leaving the driver; then returns true.
  template <typename Work>
  bool guard(const Work& work) noexcept;
  // Adopts the cause that a peer has found; true if operations are to end now.
  bool adopt_peers_cause() noexcept;
  // True if a peer has found a cause.
  bool has_peer_failed() const noexcept;
  // Says goodbye to the peers, unless the group is broken.
  void leave() noexcept;
  // Throws for a collective that is called after the group broke. It would have had the number
  // `sequence`.
  [[noreturn]] void refuse(const Descriptor& called, std::uint64_t sequence) const;

 private:
  void complete_only(std::uint64_t until) noexcept;
  void tell() noexcept;
  // The operation that this rank has called under the sequence number of the cause.
  std::string call_of(const Cause& cause) const noexcept;

  Peers& peers_;
  record::GroupRecorder& log_;
  const bool reports_;
  std::atomic<bool> poisoned_{false};
  std::atomic<bool> has_to_end_{false};
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint64_t> completes_until_{0};  // written under mutex_
  mutable Mutex mutex_;
  std::exception_ptr error_ DL_GUARDED_BY(mutex_);
};

template <typename Work>
bool Failure::guard(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::exception&) {
    fail(cause_caught(peers_.group()));
  }
  return true;
}

}  // namespace dl::collectives::shm
