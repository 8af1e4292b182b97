#include "collectives/tcp/state/status.h"

#include <algorithm>
#include <utility>

#include "collectives/process/peer_process.h"

namespace dl::collectives::tcp {

std::exception_ptr Status::error() const noexcept {
  if (is_in_child()) {
    return std::make_exception_ptr(
        Error(ErrorKind::kInvalidArgument, text_of_forked_child(group_.name, group_.self())));
  }
  if (!is_broken()) return nullptr;
  const Lock lock(mutex_);
  return error_;
}

void Status::throw_if_broken() const {
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

std::exception_ptr Status::refusal(const Descriptor& called, std::uint64_t sequence) const {
  std::exception_ptr broken = error();
  if (!broken || is_in_child() || row_of(called.op).is_message) return broken;
  if (sequence <= completes_until()) return nullptr;
  report_late_call(cause_of(broken), called, sequence, group_.reports_failures);
  return broken;
}

std::exception_ptr Status::gone_rank() const {
  if (is_in_child()) return nullptr;
  const Lock lock(mutex_);
  return gone_rank_;
}

std::string Status::own_call() const {
  const Lock lock(mutex_);
  return own_call_;
}

void Status::break_with(const Cause& cause, std::string own_call, std::uint64_t completes_until) {
  {
    const Lock lock(mutex_);
    error_ = std::make_exception_ptr(GroupError(cause));
    own_call_ = std::move(own_call);
  }
  completes_until_.store(completes_until);
  is_broken_.store(true, std::memory_order_release);
}

void Status::complete_only(std::uint64_t until) noexcept {
  completes_until_.store(std::max(until, completed_.load()));
}

void Status::note_gone(Cause end) {
  const Lock lock(mutex_);
  if (!gone_rank_) gone_rank_ = std::make_exception_ptr(GroupError(std::move(end)));
}

}  // namespace dl::collectives::tcp
