// Inner: the groups that a hybrid group consists of. A value; any thread.
#pragma once

#include <exception>
#include <optional>

#include "collectives/hybrid/route/progress.h"
#include "collectives/shm/group.h"
#include "collectives/tcp/group.h"
#include "collectives/waiting/group_error.h"

namespace dl::collectives::hybrid {

struct Inner {
  Ref<tcp::Group> all;  // every rank
  // The groups of this node's ranks, for the lanes kIn and kOut; null if this rank is alone there.
  Ref<shm::Group> in, out;
  Lanes lanes;

  // The cause that breaks the hybrid group: what the group of all ranks knows, or what this rank
  // has found in a lane. A cause that another rank has found in a lane also reaches the group of
  // all ranks, with its `completes_until`.
  std::optional<Cause> cause() const noexcept;
  // Breaks them all. The group of all ranks passes `completes_until` on. The lanes have other
  // numbers: each completes the first `calls` of its own collectives.
  void fail(const Cause& cause, std::uint64_t completes_until,
            const LaneCalls& calls) const noexcept;

  // After a timeout: blames a rank that gives no sign of life instead of the rank that `cause`
  // names. The latter may itself wait for the silent rank in another lane. `asked`: when all ranks
  // were probed; nullopt: probe them now, and wait for `answer`.
  void blame_silent_ranks(Cause& cause, std::optional<Deadline::Clock::time_point> asked,
                          std::chrono::nanoseconds answer) const noexcept;
};

}  // namespace dl::collectives::hybrid
