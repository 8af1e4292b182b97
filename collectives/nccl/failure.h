// Failure: the first cause that broke an NcclGroup. The group and its host group, a CPU group of
// the same ranks, break together.
//
// Shared by callers, Works and the watcher. Any thread.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "collectives/api/process_group.h"
#include "collectives/call/identity.h"
#include "collectives/waiting/group_error.h"
#include "core/base/first_error.h"
#include "core/base/mutex.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::nccl {

class Failure {
 public:
  Failure(Ref<ProcessGroup> host, Identity self, std::string group);

  // True in a forked child of the rank. The child is not a member of the group, so every call
  // throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  bool is_set() const noexcept { return error() != nullptr; }
  std::exception_ptr error() const noexcept;
  // Throws error(), also if the host group is broken.
  void check();
  const Ref<FirstError>& first() const noexcept { return first_; }

  // Breaks the group with a cause that the other ranks do not know yet. Does nothing if there is a
  // cause already, or in a forked child, which must not speak for the rank.
  void set(const Cause& cause) noexcept { set(cause, true); }
  // For an error of another rank, which NCCL does not name: waits at most 3 s for the host group to
  // name the rank. `text` is NCCL's.
  void set_remote(std::string_view text) noexcept;
  // Takes over the host group's failure, if there is one.
  void hear_host() noexcept;
  // The rank whose process has ended, as far as the host group knows.
  std::optional<Cause> gone_rank() const noexcept;
  // Breaks the host group, and so tells the other ranks, unless they know already. Returns the
  // cause.
  Cause tell() noexcept;

 private:
  void set(const Cause& cause, bool is_to_tell) noexcept;

  const ForkMark fork_mark_{};
  const Ref<ProcessGroup> host_;
  const Identity self_;
  const std::string group_;
  // Set before NCCL is told to abort, even if no operation is under way. An aborting rank may feed
  // wrong data into the other ranks' operations, which then end without an error.
  const Ref<FirstError> first_ = make_ref<FirstError>();
  Mutex mutex_;
  std::optional<Cause> cause_ DL_GUARDED_BY(mutex_);
  bool is_to_tell_ DL_GUARDED_BY(mutex_) = false;
};

}  // namespace dl::collectives::nccl
