#include "collectives/waiting/group_error.h"

namespace dl::collectives {

Cause cause_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const GroupError& known) {
    return known.cause();
  } catch (const Error& known) {
    return {.kind = known.kind(), .text = known.what()};
  } catch (const std::exception& other) {
    return {.text = other.what()};
  }
}

Cause cause_caught(std::string_view group) {
  try {
    throw;
  } catch (const Error&) {
    return cause_of(std::current_exception());
  } catch (const std::exception& other) {
    return {.text = fmt::format("group '{}': {}", group, other.what())};
  }
}

Cause cause_of_abort(std::string_view group, std::string_view by, std::string_view reason) {
  const bool is_renewal = reason.data() == kRenewal;
  return {.kind = ErrorKind::kAborted,
          .blame = is_renewal ? Blame::kRenewal : Blame::kNone,
          .text = fmt::format("group '{}' was aborted by {}: {}", group, by, reason)};
}

Cause cause_of_destruction(std::string_view group, std::string_view by,
                           const Descriptor* operation) {
  const std::string text = fmt::format("{} destroyed group '{}' while {} was under way", by, group,
                                       operation != nullptr ? "it" : "an operation");
  if (operation == nullptr) return {.kind = ErrorKind::kAborted, .text = text};
  return cause_in(*operation, ErrorKind::kAborted, text);
}

Cause cause_about(const Descriptor& operation, ErrorKind kind, std::string text, Blame blame,
                  int rank) {
  return {.kind = kind,
          .blame = blame,
          .rank = rank,
          .sequence = operation.sequence,
          .operation = title(operation),
          .text = std::move(text)};
}

Cause cause_in(const Descriptor& operation, ErrorKind kind, std::string_view why, Blame blame,
               int rank) {
  return cause_about(operation, kind, with_operation(operation, why), blame, rank);
}

Cause as_told(Cause cause, int self) {
  if (cause.blame == Blame::kNone) {
    cause.blame = Blame::kBroke;
    cause.rank = self;
  }
  return cause;
}

std::string call_text(const Descriptor& own) {
  return own.plan == 0 ? text(own) : fmt::format("{} by plan {:08x}", text(own), own.plan);
}

std::string making_of(std::string_view group) {
  return fmt::format("the making of group '{}'", group);
}

void report_failed_call(const Called& called, int self, Cause cause) noexcept {
  if (!rendezvous::blames(cause.blame)) return;
  // An operation of a group that broke meanwhile: the group has told it.
  if (!cause.operation.empty()) return;
  cause.operation = called.operation;
  if (cause.found_by < 0) cause.found_by = self;
  const bool is_mismatch = cause.blame == Blame::kMismatch;
  rendezvous::report_peer_failure(
      {.cause = std::move(cause), .call = is_mismatch ? called.text : std::string()});
}

void report_late_call(const Cause& cause, Descriptor called, std::uint64_t sequence,
                      bool reports_failures) {
  if (!reports_failures || cause.blame != Blame::kMismatch || cause.sequence != sequence) return;
  called.sequence = sequence;
  rendezvous::report_peer_failure({.cause = cause, .call = call_text(called)});
}

}  // namespace dl::collectives
