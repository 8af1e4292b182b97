// Failure: the GroupStatus of a shared-memory group. The first cause that any rank finds breaks the
// group. This rank writes the cause into its own Block, which the others read.
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
#include "collectives/waiting/pending/group_status.h"

namespace dl::collectives::shm {

class Failure : public GroupStatus {
 public:
  Failure(Peers& peers, record::GroupRecorder& log, bool reports)
      : GroupStatus(peers.group(), peers.self(), log, reports), peers_(peers) {}

  // True if the driver has to end operations, because completes_until() was set or lowered.
  bool has_to_end() const noexcept { return has_to_end_.load(); }
  void begin_ending() noexcept { has_to_end_.store(false); }
  // True if nothing may be begun now: the group is closed, or is about to end operations.
  bool stops() const noexcept { return is_closed() || has_to_end(); }

  // Breaks the group; the first cause counts. `completes_until`: completed(), if not given. A
  // thread that does not drive must call Role::end_if_broken() afterwards.
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

 private:
  void lower_to(std::uint64_t until) noexcept;
  void wake_peers() noexcept;
  // The operation that this rank has called under the sequence number of the cause.
  std::string call_of(const Cause& cause) const noexcept;

  Peers& peers_;
  std::atomic<bool> has_to_end_{false};
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
