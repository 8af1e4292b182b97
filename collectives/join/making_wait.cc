#include "collectives/join/making_wait.h"

#include <fmt/core.h>

#include "collectives/call/descriptor.h"
#include "collectives/join/roster.h"
#include "collectives/waiting/group_error.h"
#include "core/base/log/log.h"
#include "core/base/text/name_list.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives {
namespace {

constexpr std::chrono::milliseconds kLong{500};

}  // namespace

Deadline MakingWait::until() const noexcept {
  return Deadline::earlier(patience_.until(deadline_), Deadline::after(kAliveLook));
}

void MakingWait::check(std::span<const Identity* const> missing) {
  for (const Identity* const who : missing) check_still_making(options_, *who);
  const Identity& first = *missing.front();
  const bool is_late = deadline_.has_passed();
  if (!is_late && !patience_.should_warn()) return;
  std::vector<std::string> names;
  for (const Identity* const who : missing) names.push_back(who->text());
  const std::string who = detail::name_list(names);
  if (is_late) {
    throw_blaming(first.in_job(), Blame::kMissing, ErrorKind::kTimeout,
                  "group '{}': {} did not {} within {} s", options_.name, who, what_,
                  seconds_text(options_.connect_timeout));
  }
  log::warning("group '{}': {} s waiting for {} to {}", options_.name, patience_.waited().count(),
               who, what_);
}

ToldWait::ToldWait(const std::string& group)
    : operation_(making_of(group)), at_(Deadline::after(kLong)) {}

ToldWait::~ToldWait() {
  if (told_ >= 0) rendezvous::report_waiting({.rank = -1, .operation = {}});
}

Deadline ToldWait::at() const noexcept {
  return told_ >= 0 ? Deadline::never() : at_;
}

void ToldWait::tell(int in_job) {
  if (in_job < 0 || in_job == told_ || !is_due()) return;
  told_ = in_job;
  rendezvous::report_waiting({.rank = in_job, .operation = operation_});
}

}  // namespace dl::collectives
