// GroupError: the Error of a broken group, with its cause as a value. A group that contains another
// one reads the value, not the text.
//
// Any thread.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "collectives/call/descriptor.h"
#include "core/base/error.h"
#include "rendezvous/net/cause.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives {

using rendezvous::Blame;
using rendezvous::Cause;

class GroupError final : public Error {
 public:
  explicit GroupError(Cause cause) : Error(cause.kind, cause.text), cause_(std::move(cause)) {}
  const Cause& cause() const noexcept { return cause_; }

 private:
  Cause cause_;
};

// Throws an error of making a group. `rank`: the blamed one in the job; -1: not known.
template <typename... Args>
[[noreturn]] void throw_blaming(int rank, Blame blame, ErrorKind kind,
                                fmt::format_string<Args...> text, Args&&... args) {
  throw GroupError({.kind = kind,
                    .blame = blame,
                    .rank = rank,
                    .text = fmt::format(text, std::forward<Args>(args)...)});
}

// What a rank calls together with the others outside of a group's operations.
struct Called {
  std::string operation;  // "the making of group 'world'"
  // "init of 'world' of 4 ranks over auto". After a mismatch, the ranks' agents compare these.
  std::string text;
};
// "the making of group 'world'"
std::string making_of(std::string_view group);

// Runs `call`. If it fails because of another rank, this rank's agent hears of it before the
// program does. Success tells that the program has got over such reports before. `self`: this rank
// in the job.
template <typename Call>
auto tell_failure(const Called& called, int self, const Call& call);

// The ranks do not agree, and `rank` is one whose wish is another than this rank's.
template <typename... Args>
[[noreturn]] void throw_mismatch(int rank, fmt::format_string<Args...> text, Args&&... args) {
  throw_blaming(rank, Blame::kMismatch, ErrorKind::kMismatch, text, std::forward<Args>(args)...);
}

// The cause in an exception. An error other than a GroupError blames no rank.
Cause cause_of(const std::exception_ptr& error);
// For a catch block of a group's driver: the cause of the exception that it has caught.
Cause cause_caught(std::string_view group);

// The reason with which reform() aborts a group: no rank has failed, and none is blamed. An array,
// because it is known by its address, which a literal need not have alike in all files.
inline constexpr char kRenewal[] = "its ranks make it anew; call reform() on every rank";

// "group 'world' was aborted by rank 1 (...): `reason`"
Cause cause_of_abort(std::string_view group, std::string_view by, std::string_view reason);
// Rank `by` destroyed the group while this operation was under way; null: it is not known which.
Cause cause_of_destruction(std::string_view group, std::string_view by,
                           const Descriptor* operation);

// A cause that was found in an operation: "all_reduce #7 (f32[8] sum): `why`". `rank`: the blamed
// rank in the job; -1: none.
Cause cause_in(const Descriptor& operation, ErrorKind kind, std::string_view why,
               Blame blame = Blame::kNone, int rank = -1);
// cause_in() for a text that names the operation already.
Cause cause_about(const Descriptor& operation, ErrorKind kind, std::string text,
                  Blame blame = Blame::kNone, int rank = -1);

// The cause as rank `self` of the job tells it to the other ranks. If it blames no rank, they blame
// `self`.
Cause as_told(Cause cause, int self);

// The call and its plan, for this rank's agent, which compares the ranks' calls after a mismatch.
std::string call_text(const Descriptor& own);

// Tells the agent of a call that this rank made after it had heard of the operation's mismatch.
// `called` would have had the number `sequence`.
void report_late_call(const Cause& cause, Descriptor called, std::uint64_t sequence,
                      bool reports_failures);

// For tell_failure().
void report_failed_call(const Called& called, int self, Cause cause) noexcept;

template <typename Call>
auto tell_failure(const Called& called, int self, const Call& call) {
  const std::uint32_t reported = rendezvous::standing_report();
  try {
    auto made = call();
    rendezvous::report_recovery(reported);
    return made;
  } catch (const GroupError& error) {
    report_failed_call(called, self, error.cause());
    throw;
  }
}

}  // namespace dl::collectives
