#include "collectives/nccl/failure.h"

#include <fmt/core.h>

#include <chrono>
#include <thread>
#include <utility>

#include "collectives/process/peer_process.h"
#include "core/base/deadline.h"

namespace dl::collectives::nccl {
namespace {

using namespace std::chrono_literals;

// The host group first reads what a lost rank has still sent, so NCCL may notice the loss before
// the host group names the rank.
constexpr std::chrono::nanoseconds kNamingTime = 3s;

}  // namespace

Failure::Failure(Ref<ProcessGroup> host, Identity self, std::string group)
    : host_(std::move(host)), self_(std::move(self)), group_(std::move(group)) {}

std::exception_ptr Failure::error() const noexcept {
  if (!is_in_child()) return first_->get();
  return std::make_exception_ptr(
      Error(ErrorKind::kInvalidArgument, text_of_forked_child(group_, self_)));
}

void Failure::check() {
  if (!is_in_child()) hear_host();
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

void Failure::set(const Cause& cause, bool is_to_tell) noexcept {
  if (is_in_child()) return;
  const Lock lock(mutex_);
  if (cause_) return;
  cause_ = cause;
  is_to_tell_ = is_to_tell;
  first_->set(std::make_exception_ptr(GroupError(cause)));
}

void Failure::set_remote(std::string_view text) noexcept {
  const Deadline until = Deadline::after(kNamingTime);
  while (true) {
    hear_host();
    if (is_set()) return;
    if (std::optional<Cause> gone = gone_rank()) {
      gone->text = fmt::format("{}; {}", gone->text, text);
      return set(*gone);
    }
    if (until.has_passed()) break;
    std::this_thread::sleep_for(1ms);
  }
  set({.kind = ErrorKind::kPeerFailed, .blame = Blame::kGone, .text = std::string(text)});
}

void Failure::hear_host() noexcept {
  if (const std::exception_ptr cause = host_->error()) set(cause_of(cause), false);
}

std::optional<Cause> Failure::gone_rank() const noexcept {
  const std::exception_ptr gone = host_->gone_rank();
  return gone ? std::optional(cause_of(gone)) : std::nullopt;
}

Cause Failure::tell() noexcept {
  Cause cause;
  {
    const Lock lock(mutex_);
    if (cause_) cause = *cause_;
    if (!std::exchange(is_to_tell_, false)) return cause;
  }
  if (cause.blame == Blame::kNone) {
    host_->abort(cause.text);
  } else {
    // The host group has sequence numbers of its own.
    Cause told = cause;
    told.sequence = 0;
    host_->fail(std::make_exception_ptr(GroupError(told)), std::nullopt);
  }
  return cause;
}

}  // namespace dl::collectives::nccl
