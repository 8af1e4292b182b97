#include "collectives/shm/driver/operation.h"

#include "collectives/shm/core/core.h"
#include "core/base/error.h"

namespace dl::collectives::shm {

Pending::Pending(Ref<Core> core, const Call& call, std::chrono::nanoseconds time) noexcept
    : PendingWork("shm", call, time), core_(std::move(core)) {}

void Pending::synchronize(std::optional<std::chrono::nanoseconds> limit) {
  if (!is_over()) {
    core_->wait(*this, limit);
  } else if (has_owner()) {
    core_->release_finished();
  }
  if (const std::exception_ptr failed = error()) {
    stay_if_exiting();
    std::rethrow_exception(failed);
  }
}

bool Pending::is_completed() const noexcept {
  if (is_over()) return true;
  if (core_->is_in_child()) return true;  // with an error: no thread drives it here
  core_->poll();
  return is_over();
}

void Pending::watch(Ref<Alarm> alarm) {
  PendingWork::watch(std::move(alarm));
  // The thread sleeps on the smallest operations, which their callers finish.
  if (!is_completed()) core_->poll();
}

std::exception_ptr Pending::error() const noexcept {
  return is_over() || !core_->is_in_child() ? PendingWork::error() : core_->error();
}

Operation::Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds time)
    : Pending(std::move(core), call, time), transfer(call) {}

}  // namespace dl::collectives::shm
