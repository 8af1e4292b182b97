#include "collectives/waiting/pending/group_status.h"

#include <algorithm>

#include "collectives/process/peer_process.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives {

std::exception_ptr GroupStatus::error() const noexcept {
  if (is_in_child()) {
    return std::make_exception_ptr(
        Error(ErrorKind::kInvalidArgument, text_of_forked_child(group_, self_)));
  }
  return is_broken() ? error_ : nullptr;
}

void GroupStatus::throw_if_broken() const {
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

std::exception_ptr GroupStatus::refusal(const Descriptor& called, std::uint64_t sequence) const {
  std::exception_ptr broken = error();
  if (!broken || is_in_child() || row_of(called.op).is_message) return broken;
  if (sequence <= completes_until()) return nullptr;
  report_late_call(cause_of(broken), called, sequence, reports_);
  return broken;
}

void GroupStatus::throw_refusal(const Descriptor& called, std::uint64_t sequence) const {
  if (const auto refused = refusal(called, sequence)) std::rethrow_exception(refused);
}

void GroupStatus::begin_to_break(Cause& cause, std::uint64_t completes_until,
                                 std::string own_call) {
  if (cause.found_by < 0) cause.found_by = self_.in_job();
  error_ = std::make_exception_ptr(GroupError(cause));
  own_call_ = std::move(own_call);
  completes_until_.store(completes_until);
  // Report a failure of this rank's own before the others hear of it. Their ends, which it sees in
  // other groups, follow from it.
  if (cause.blame == Blame::kNone && reports_) {
    rendezvous::report_peer_failure({.cause = as_told(cause, self_.in_job())});
  }
}

void GroupStatus::end_to_break(const Cause& cause) {
  log_.broken(name_of(cause.kind), cause.text);
  if (rendezvous::blames(cause.blame) && reports_) {
    rendezvous::report_peer_failure({.cause = cause, .call = own_call_});
  }
  is_broken_.store(true);
}

bool GroupStatus::lower(std::uint64_t until) noexcept {
  if (is_closed() || until >= completes_until()) return false;
  completes_until_.store(std::max(until, completed()));
  return true;
}

}  // namespace dl::collectives
