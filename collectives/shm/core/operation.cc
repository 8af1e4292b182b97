#include "collectives/shm/core/operation.h"

#include "collectives/call/checks.h"
#include "collectives/shm/core/core.h"
#include "core/base/error.h"

namespace dl::collectives::shm {

Pending::Pending(Ref<Core> core, const Descriptor& what, std::chrono::nanoseconds time,
                 Ref<RefCounted> owner) noexcept
    : descriptor(what), waiting(time), core_(std::move(core)), owner_(std::move(owner)) {}

void Pending::wait(Stream stream) {
  check_waits_on_cpu(descriptor, "shm", stream);
  synchronize(std::nullopt);
}

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

std::exception_ptr Pending::error() const noexcept {
  if (is_over()) return error_;
  return core_->is_in_child() ? core_->error() : nullptr;
}

std::optional<std::chrono::steady_clock::time_point> Pending::completed_at() const noexcept {
  if (!is_over()) return std::nullopt;
  return core_->time_of(completed_at_);
}

void Pending::end(std::exception_ptr failed, std::uint64_t now) noexcept {
  error_ = std::move(failed);
  completed_at_ = now;
  done_.store(1);
  if (sleepers_.load() > 0) wake(done_);
}

void Pending::sleep_until(Deadline until) {
  sleepers_.fetch_add(1);
  if (done_.load() == 0) nap(done_, 0, until.left());
  sleepers_.fetch_sub(1);
}

Operation::Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds time)
    : Pending(std::move(core), call.what, time, call.options->keep_alive),
      kind(call.row().fixed_count),
      input(static_cast<const std::byte*>(call.input)),
      gives(call.gives),
      output(static_cast<std::byte*>(call.output)),
      takes(call.takes) {}

}  // namespace dl::collectives::shm
