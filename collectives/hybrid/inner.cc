#include "collectives/hybrid/inner.h"

#include <string>
#include <vector>

namespace dl::collectives::hybrid {

std::optional<Cause> Inner::cause() const noexcept {
  if (const std::exception_ptr heard = all->error()) return cause_of(heard);
  for (const Ref<ProcessGroup>& lane : lanes) {
    const std::exception_ptr error = lane ? lane->error() : nullptr;
    if (!error) continue;
    Cause found = cause_of(error);
    if (found.found_by == all->rank_in_job()) return found;
  }
  return std::nullopt;
}

void Inner::fail(const Cause& cause, std::uint64_t completes_until,
                 const LaneCalls& calls) const noexcept {
  const std::exception_ptr error = std::make_exception_ptr(GroupError(cause));
  if (all) all->fail(error, completes_until);
  for (std::size_t i = 0; i < kLanes; ++i) {
    // A lane of one rank has no peer to tell.
    if (lanes[i] && lanes[i]->size() > 1) lanes[i]->fail(error, calls.in[i]);
  }
}

void Inner::blame_silent_ranks(Cause& cause, std::optional<Deadline::Clock::time_point> asked,
                               std::chrono::nanoseconds answer) const noexcept try {
  const auto now = Deadline::Clock::now();
  if (!asked) all->ask_peers();
  const Deadline until = asked ? Deadline::at(*asked + answer) : Deadline::after(answer);
  const std::vector<Identity> silent = all->silent_peers(asked.value_or(now), until);
  std::string names;
  for (const Identity& who : silent) {
    if (who.in_job() == cause.rank) return;  // the text names it already
    names += fmt::format("{}{}", names.empty() ? "" : "; ", who.text());
  }
  if (silent.empty()) return;
  cause.blame = Blame::kMissing;
  cause.rank = silent.front().in_job();
  cause.text += fmt::format(
      "; probable cause: {}, which does not answer (stopped, or its host cannot be reached)",
      names);
} catch (...) {
  // Out of memory: leave the cause as it is.
}

}  // namespace dl::collectives::hybrid
