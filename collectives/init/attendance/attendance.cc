#include "collectives/init/attendance/attendance.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "collectives/join/roster.h"
#include "collectives/process/peer_process.h"
#include "collectives/waiting/group_error.h"
#include "core/base/log/log.h"
#include "core/base/system/random_bits.h"
#include "core/base/text/number.h"

namespace dl::collectives {
namespace {

constexpr std::chrono::seconds kTimeToLook{1};
constexpr std::chrono::milliseconds kLookPause{250};
// A rank that waits looks every 10 s at least (roster.cc). One that does not answer is gone.
constexpr std::chrono::seconds kLongestSilence{12};
constexpr std::size_t kMostCauseBytes = 4096;
// With less time than this left, a rank stays in its init, and names who has not come.
constexpr std::chrono::milliseconds kTimeToJoin{500};

// How often a rank has begun the init of groups with a name; the newest init of any rank.
std::string count_key(std::string_view name, int rank) {
  return fmt::format("inits/{}/{}", name, rank);
}
std::string newest_key(std::string_view name) {
  return fmt::format("newest_init/{}", name);
}
// The name of the group in whose init a rank waits.
std::string name_key(int rank) {
  return fmt::format("waits_in_init/{}", rank);
}
// The process that is in the init as a rank; another one that would be; and what it is told.
std::string claim_key(std::string_view name, int rank) {
  return fmt::format("in_init/{}/{}", name, rank);
}
std::string twin_key(std::string_view name, int rank) {
  return fmt::format("twin/{}/{}", name, rank);
}
// The process that was the first to come as a rank.
std::string first_key(int rank) {
  return fmt::format("here/{}", rank);
}
std::string verdict_key(std::string_view run) {
  return fmt::format("verdict/{}", run);
}
constexpr std::string_view kVerdict = "verdict";  // of one init, for all ranks

std::string claim_of(const Identity& self) {
  return fmt::format("{}\n{}", this_run(), Record{.who = self}.text());
}
std::string run_of(std::string_view claim) {
  return std::string(claim.substr(0, claim.find('\n')));
}
Identity process_of(std::string_view claim, int rank) {
  return Record::parse(claim, rank).who;
}
// True if another process, which is alive as far as this one can tell, has made the claim.
bool is_of_another(const std::optional<std::string>& claim, int rank) {
  return claim && !claim->empty() && run_of(*claim) != this_run() &&
         !has_ended(process_of(*claim, rank));
}

Cause cause_of_twin(std::string_view name, const Identity& first, const Identity& second) {
  return {.kind = ErrorKind::kMismatch,
          .blame = Blame::kMismatch,
          .rank = second.in_job(),
          .found_by = first.in_job(),
          .text = fmt::format("init of group '{}': {} and {} have both come as rank {}; give each "
                              "process a number of its own",
                              name, first.text(), second.text(), first.rank)};
}

// Runs a look into the store. One that takes too long shows nothing.
template <typename Look>
void unless_late(const Look& look) {
  try {
    look(Deadline::after(kTimeToLook));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
  }
}

[[noreturn]] void throw_verdict(std::string_view verdict) {
  std::optional<Cause> cause = rendezvous::decode_cause(verdict);
  DL_CHECK(cause, kParse, "init: the store has '{}', wanted a cause", verdict);
  throw GroupError(std::move(*cause));
}

}  // namespace

std::string this_run() {
  static const std::uint64_t number = random_bits();
  return fmt::format("{:016x}", number);
}

Superseded::Superseded(const std::string& group)
    : Error(ErrorKind::kAborted,
            fmt::format("init of group '{}': the other ranks have begun another init", group)) {}

Attendance::Attendance(rendezvous::Store& generation, std::string name, Identity self,
                       Deadline deadline)
    : generation_(generation), name_(std::move(name)), self_(std::move(self)), deadline_(deadline) {
  claim(deadline);
  try {
    begin(deadline);
  } catch (...) {
    leave();
    throw;
  }
}

std::string Attendance::place() const {
  return fmt::format("init/{}/{}/", name_, number_);
}

bool Attendance::enter_once(rendezvous::Store& generation, const std::string& name,
                            const Identity& self, Deadline deadline) {
  const auto first =
      generation.compare_and_set(first_key(self.rank), std::nullopt, claim_of(self), deadline);
  if (run_of(*first.present) == this_run()) return true;
  if (!is_of_another(first.present, self.rank)) return false;
  // The other process may have come so shortly before that it has yet to claim its rank.
  try {
    generation.get(claim_key(name, self.rank),
                   Deadline::earlier(deadline, Deadline::after(kLongestSilence)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
  }
  refuse_twin(generation, name, self, deadline);
  return false;
}

void Attendance::refuse_twin(rendezvous::Store& generation, const std::string& name,
                             const Identity& self, Deadline deadline) {
  const auto present = generation.try_get(claim_key(name, self.rank), deadline);
  if (!is_of_another(present, self.rank)) return;
  generation.set(twin_key(name, self.rank), claim_of(self), deadline);
  std::string verdict;
  try {
    verdict = generation.get(verdict_key(this_run()),
                             Deadline::earlier(deadline, Deadline::after(kLongestSilence)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    // The other process may be too busy to answer in so short a time.
    if (deadline.has_passed()) {
      throw GroupError(cause_of_twin(name, process_of(*present, self.rank), self));
    }
    generation.set(twin_key(name, self.rank), "", deadline);
    return;
  }
  throw_verdict(verdict);
}

void Attendance::claim(Deadline deadline) {
  const std::string key = claim_key(name_, self_.rank);
  const std::string own = claim_of(self_);
  const auto swap = generation_.compare_and_set(key, std::nullopt, own, deadline);
  if (!swap.swapped) {
    if (is_of_another(swap.present, self_.rank)) refuse_twin(generation_, name_, self_, deadline);
    generation_.set(key, own, deadline);
  }
  has_claimed_ = true;
}

// A number that another rank has begun before this one has begun it, too, was given up: a group is
// made by all ranks.
void Attendance::begin(Deadline deadline) {
  const std::string own_key = count_key(name_, self_.rank);
  const std::int64_t own = generation_.add(own_key, 1, deadline);
  for (;;) {
    const auto said = generation_.try_get(newest_key(name_), deadline);
    const std::int64_t newest = said ? read_number<std::int64_t>(*said).value_or(0) : 0;
    number_ = std::max(newest, own);
    if (newest >= own ||
        generation_.compare_and_set(newest_key(name_), said, std::to_string(own), deadline)
            .swapped) {
      break;
    }
  }
  if (number_ > own) generation_.set(own_key, std::to_string(number_), deadline);
}

std::optional<Cause> Attendance::answer_twin(Deadline soon) {
  const auto twin = generation_.try_get(twin_key(name_, self_.rank), soon);
  if (!is_of_another(twin, self_.rank)) return {};
  Cause cause = cause_of_twin(name_, self_, process_of(*twin, self_.rank));
  generation_.set(twin_key(name_, self_.rank), "", soon);
  generation_.set(verdict_key(run_of(*twin)), encode(cause, kMostCauseBytes), soon);
  return cause;
}

void Attendance::look_for_twin(Deadline soon) {
  if (std::optional<Cause> cause = answer_twin(soon)) {
    generation_.set(place().append(kVerdict), encode(*cause, kMostCauseBytes), soon);
    throw GroupError(std::move(*cause));
  }
  const auto verdict = generation_.try_get(place().append(kVerdict), soon);
  if (verdict) throw_verdict(*verdict);
}

void Attendance::look_at_name(int rank, Deadline soon) {
  if (!has_said_) {
    generation_.set(name_key(self_.rank), fmt::format("{} {}", number_, name_), soon);
  }
  has_said_ = true;
  const auto said = generation_.try_get(name_key(rank), soon);
  if (!said || said->empty()) return;
  const std::string_view words = *said;
  const std::size_t space = words.find(' ');
  const std::string_view theirs = words.substr(space + 1);
  if (theirs == name_) return;
  // If this rank has been in that init, the other rank will leave it.
  const auto own = generation_.try_get(count_key(theirs, self_.rank), soon);
  const auto number = read_number<std::int64_t>(words.substr(0, space));
  if (own && read_number<std::int64_t>(*own) >= number) return;
  throw_mismatch(rank,
                 "init of group '{}': rank {} waits in the init of a group that it calls '{}'; "
                 "give the group the same name on all ranks",
                 name_, rank, theirs);
}

void Attendance::look(Deadline soon) {
  look_for_twin(soon);
  if (deadline_.left() < kTimeToJoin) return;
  const auto newest = generation_.try_get(newest_key(name_), soon);
  if (newest && read_number<std::int64_t>(*newest).value_or(0) > number_) throw Superseded(name_);
}

void Attendance::check() {
  if (!next_look_.has_passed()) return;
  next_look_ = Deadline::after(kLookPause);
  unless_late([&](Deadline soon) { look(soon); });
}

void Attendance::check_absent(int rank) {
  unless_late([&](Deadline soon) {
    look(soon);
    look_at_name(rank, soon);
  });
}

void Attendance::leave() noexcept {
  try {
    const Deadline soon = Deadline::after(kTimeToLook);
    if (std::exchange(has_claimed_, false)) {
      generation_.set(claim_key(name_, self_.rank), "", soon);
      answer_twin(soon);  // one that has waited for an answer meanwhile
    }
    if (std::exchange(has_said_, false)) generation_.set(name_key(self_.rank), "", soon);
  } catch (const std::exception& error) {
    log::info("the others are not told that this init is over: {}", error.what());
  }
}

}  // namespace dl::collectives
