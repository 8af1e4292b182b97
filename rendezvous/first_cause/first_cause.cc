#include "rendezvous/first_cause/first_cause.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "core/base/system/process/shell.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

// How long a running rank may take to end before the rank that blames it counts as the cause.
std::chrono::milliseconds patience_for(Blame blame) {
  switch (blame) {
    case Blame::kMissing:
    case Blame::kLink:
      return 500ms;  // there is no sign that it ends
    case Blame::kUnreachable:
      // Within this time the connection between the nodes shows whether the host is gone.
      return 3s;
    default:
      return 5s;  // its connections have closed, so its process usually ends within this time
  }
}
// Time for the other ranks to report their calls.
constexpr std::chrono::milliseconds kGatherTime = 500ms;
constexpr std::size_t kMostNoteLines = 12;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size() && lines.size() < kMostNoteLines;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// That the rank itself has broken a group, of which its last words may say nothing.
std::vector<std::string> own_failure(const RankEnd& end) {
  if (!end.follows || end.follows->cause.rank != end.rank ||
      end.follows->cause.blame != Blame::kBroke) {
    return {};
  }
  const std::string& text = end.follows->cause.text;
  return {"  " + text.substr(0, text.find('\n'))};
}

// True if the rank may have ended because its group failed: the program exits with a code of its
// own, or aborts because no code catches the error. A shell's handler ends with 128+15 after
// SIGTERM.
bool may_end_for_its_group(const RankEnd& end) {
  if (WIFSIGNALED(end.status)) return WTERMSIG(end.status) == SIGABRT;
  const bool is_handlers_code =
      WEXITSTATUS(end.status) == 128 + SIGTERM || WEXITSTATUS(end.status) == 128 + SIGINT;
  return end.failed() && !(end.stopped && is_handlers_code);
}

}  // namespace

bool RankEnd::is_follower() const {
  if (aborted || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) return false;
  if (!follows) return lost_peer;
  const Cause& cause = follows->cause;
  return cause.rank != rank || (cause.blame != Blame::kLeft && cause.blame != Blame::kBroke);
}

int RankEnd::exit_code() const {
  if (aborted) return *aborted & 0xff;
  return left_mpi ? 1 : shell_exit_code(status);
}

std::string RankEnd::how() const {
  if (aborted) return fmt::format("called MPI_Abort with {}", *aborted);
  return how_it_ended(status) + (left_mpi ? " without MPI_Finalize" : "");
}

std::string place_of(const Cause& cause) {
  return cause.operation.empty() ? "a group" : cause.operation;
}

std::string why_it_failed(const RankEnd& end) {
  if (!end.follows || !may_end_for_its_group(end)) return "";
  const Cause& cause = end.follows->cause;
  if (cause.blame == Blame::kMismatch) {
    const std::string& call = end.follows->call;
    return "because of a mismatch" + (call.empty() ? "" : ", having called " + call);
  }
  if (cause.rank == end.rank) return "";
  const std::string peer = cause.rank >= 0 ? fmt::format("rank {}", cause.rank) : "a peer";
  const bool is_link = cause.blame == Blame::kLink || cause.blame == Blame::kUnreachable;
  return fmt::format("because of {}{} in {}", is_link ? "a lost connection to " : "", peer,
                     place_of(cause));
}

std::string goes_on_without(const std::vector<RankEnd>& ends, std::size_t ranks) {
  if (ends.size() >= ranks) return "";
  const RankEnd& end = ends.back();
  std::string text = end.text;
  if (const std::string why = why_it_failed(end); !why.empty()) text += ", " + why;
  const std::size_t left = ranks - ends.size();
  return text +
         fmt::format("; {} rank{} on (--on-failure keep)", left, left == 1 ? " goes" : "s go");
}

std::string went_on_without(const std::vector<RankEnd>& ends) {
  std::vector<int> failed;
  std::vector<int> well;
  for (const RankEnd& end : ends) (end.failed() ? failed : well).push_back(end.rank);
  if (failed.empty()) return "";
  return fmt::format("the job went on without {}, which failed; {} ended with exit code 0",
                     rank_list(failed), rank_list(well));
}

// The path from a follower to the rank that it blames, from there to the rank that this one blames,
// and so on. It ends at the first rank that is not a follower.
struct FirstCause::Trail {
  enum class Where : std::uint8_t { kRuns, kEndedWell, kMismatch, kCircle, kUnknown } where;
  const RankEnd* last = nullptr;  // the last follower
  int rank = -1;                  // the rank that `last` blames
};

void FirstCause::ended(RankEnd end) {
  waiting_.erase(end.rank);
  const bool outlives = on_failure_ == OnFailure::kKeep && !end.failed() && !end.stopped;
  ends_.push_back(std::move(end));
  if (outlives) {
    outlived_ = ends_.size();
    finding_.reset();
  }
  judge();
}

void FirstCause::waits(int rank, Waiting waiting) {
  if (waiting.rank < 0) {
    waiting_.erase(rank);
  } else if (end_of(rank) == nullptr) {
    waiting_.insert_or_assign(rank, std::move(waiting));
  }
  judge();
}

void FirstCause::goes_on(int rank) {
  going_on_.insert(rank);
  judge();
}

const RankEnd* FirstCause::end_of(int rank) const {
  const auto found = std::find_if(ends_.begin(), ends_.end(),
                                  [rank](const RankEnd& end) { return end.rank == rank; });
  return found == ends_.end() ? nullptr : &*found;
}

std::string FirstCause::host_of(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return rank >= 0 && at < hosts_.size() ? hosts_[at] : std::string();
}

FirstCause::Trail FirstCause::follow(const RankEnd& from) const {
  using Where = Trail::Where;
  std::set<int> seen;
  for (const RankEnd* at = &from;;) {
    if (!at->follows) return {Where::kUnknown, at};
    const Cause& cause = at->follows->cause;
    if (cause.blame == Blame::kMismatch) return {Where::kMismatch, at, cause.rank};
    // If the blamed rank is this rank itself, it learned that from another rank: go on with that
    // rank.
    const int next = cause.rank != at->rank ? cause.rank : cause.found_by;
    if (next < 0 || next == at->rank) return {Where::kUnknown, at};
    seen.insert(at->rank);
    const RankEnd* const end = end_of(next);
    if (end == nullptr) return {Where::kRuns, at, next};
    if (!end->failed()) return {Where::kEndedWell, at, next};
    if (!end->is_follower() || seen.contains(next)) return {Where::kCircle, at, next};
    at = end;
  }
}

// Sets question(). Returns false if the question was answered already.
bool FirstCause::asks(int rank, std::chrono::milliseconds patience) {
  if (going_on_.contains(rank)) return false;
  question_ = Question{rank, patience};
  return true;
}

void FirstCause::judge() {
  using Where = Trail::Where;
  if (finding_) return;
  question_.reset();
  std::vector<Trail> trails;
  for (std::size_t i = outlived_; i < ends_.size(); ++i) {
    const RankEnd& end = ends_[i];
    if (!end.failed() || end.stopped) continue;
    if (!end.is_follower()) {
      finding_ = Finding{.rank = end.rank, .notes = own_failure(end), .exit_code = end.exit_code()};
      return;
    }
    trails.push_back(follow(end));
  }
  const auto first = [&](Where where) {
    return std::find_if(trails.begin(), trails.end(),
                        [where](const Trail& trail) { return trail.where == where; });
  };
  if (const auto trail = first(Where::kEndedWell); trail != trails.end()) {
    if (!asks(kAnyRank, kGatherTime)) find_early_end(trail->rank);
    return;
  }
  for (const auto& [rank, waiting] : waiting_) {
    if (on_failure_ == OnFailure::kKeep)
      break;  // the deadline of the rank that waits ends the wait
    const RankEnd* const end = end_of(waiting.rank);
    if (end == nullptr || end->failed() || end->stopped) continue;
    if (!asks(kAnyRank, kGatherTime)) find_early_end(waiting.rank);
    return;
  }
  if (const auto trail = first(Where::kMismatch); trail != trails.end()) {
    if (!asks(kAnyRank, kGatherTime)) find_mismatch(*trail->last);
    return;
  }
  for (const Trail& trail : trails) {
    if (trail.where == Where::kRuns &&
        asks(trail.rank, patience_for(trail.last->follows->cause.blame))) {
      return;
    }
    if (trail.where == Where::kUnknown && asks(kAnyRank, kLostPeerWait)) return;
  }
  if (!trails.empty()) find_follower(trails.front());
}

std::map<std::string, std::vector<int>> FirstCause::waiters_for(int rank) const {
  std::map<std::string, std::vector<int>> waiters;
  for (const RankEnd& end : ends_) {
    if (!end.failed() || !end.follows || end.follows->cause.rank != rank) continue;
    waiters[end.follows->cause.operation].push_back(end.rank);
  }
  for (const auto& [waiter, waiting] : waiting_) {
    if (waiting.rank == rank) waiters[waiting.operation].push_back(waiter);
  }
  return waiters;
}

void FirstCause::find_early_end(int rank) {
  Finding found{.rank = rank};
  for (const auto& [operation, ranks] : waiters_for(rank)) {
    found.clause += fmt::format(
        "{} {} {} waiting for it{}", found.clause.empty() ? " while" : " and", rank_list(ranks),
        ranks.size() == 1 ? "was" : "were", operation.empty() ? "" : " in " + operation);
  }
  finding_ = std::move(found);
}

void FirstCause::find_mismatch(const RankEnd& follower) {
  std::map<std::string, std::vector<int>> calls;
  for (const RankEnd& end : ends_) {
    // Also of a rank that ended when others had left another group because of the mismatch.
    if (end.follows && !end.follows->call.empty()) calls[end.follows->call].push_back(end.rank);
  }
  for (auto& [call, ranks] : calls) std::sort(ranks.begin(), ranks.end());
  const Cause& cause = follower.follows->cause;
  Finding found{.rank = std::max(cause.rank, cause.found_by), .exit_code = follower.exit_code()};
  if (calls.size() > 1) {
    const auto most =
        std::max_element(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
          return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                                    : a.second.front() > b.second.front();
        });
    auto odd = calls.end();
    for (auto call = calls.begin(); call != calls.end(); ++call) {
      if (call == most) continue;
      if (odd == calls.end() || call->second.front() < odd->second.front()) odd = call;
    }
    found.rank = odd->second.front();
    const std::string both = fmt::format("{} called {}, {} called {}", rank_list(odd->second),
                                         odd->first, rank_list(most->second), most->first);
    // There may be no majority: a rank that hears of the mismatch before it reaches this call does
    // not report what it would have called.
    if (odd->second.size() < most->second.size()) {
      found.notes.push_back("  " + both);
    } else {
      found.headline = "ranks made different calls: " + both;
    }
  } else if (cause.rank >= 0 && cause.found_by >= 0) {
    found.headline =
        fmt::format("{} do not agree: {}", rank_list({cause.rank, cause.found_by}), cause.text);
  }
  const RankEnd* const named = end_of(found.rank);
  if (named == nullptr || !named->failed()) {
    found.rank = follower.rank;
  } else {
    found.exit_code = named->exit_code();
  }
  finding_ = std::move(found);
}

void FirstCause::find_follower(const Trail& trail) {
  const RankEnd* named = trail.last;
  if (!named->follows) {
    finding_ = Finding{.rank = named->rank,
                       .notes = {"  it seems to have lost a peer, but no other rank failed before "
                                 "it or soon after"},
                       .exit_code = named->exit_code()};
    return;
  }
  // The rank that found the cause knows more than a rank that only heard of it.
  if (const RankEnd* const finder = end_of(named->follows->cause.found_by);
      finder != nullptr && finder->failed() && finder->follows &&
      finder->follows->cause.rank == named->follows->cause.rank) {
    named = finder;
  }
  // A rank that was called gone had ended first. If it had lost a connection, that was the cause.
  if (named->follows->cause.blame == Blame::kGone) {
    const RankEnd* const gone = end_of(named->follows->cause.rank);
    if (gone != nullptr && gone->is_follower() && gone->follows &&
        gone->follows->cause.blame == Blame::kLink) {
      named = gone;
    }
  }
  const Cause& cause = named->follows->cause;
  Finding found{.rank = named->rank, .exit_code = named->exit_code()};
  const std::string here = host_of(std::min(named->rank, cause.rank));
  const std::string there = host_of(std::max(named->rank, cause.rank));
  const bool is_link = cause.blame == Blame::kUnreachable ||
                       (cause.blame == Blame::kGone && trail.where == Trail::Where::kCircle);
  if (cause.blame == Blame::kLink) {
    const int finder = cause.found_by >= 0 ? cause.found_by : named->rank;
    found.headline = fmt::format("{} lost a connection: {}", rank_list({finder, cause.rank}),
                                 named->follows->cause.text);
  } else if (is_link && here != there) {
    found.headline =
        fmt::format("hosts {} and {} lost each other: {}; is the network between them up?", here,
                    there, named->follows->cause.text);
  } else {
    const bool has_ended = end_of(cause.rank) != nullptr;
    const std::string place = place_of(cause);
    if (cause.blame == Blame::kMissing && cause.rank >= 0 && cause.rank != named->rank) {
      found.headline = fmt::format(
          "rank {} had not done its part in {} in time{}; rank {}, which waited for it, {}",
          cause.rank, place, has_ended ? "" : " and has not ended on its own", named->rank,
          named->how());
      found.notes.push_back(fmt::format("  rank {} says:", named->rank));
    } else {
      found.notes.push_back(
          fmt::format("  it says that it failed because of {} in {}{}",
                      cause.rank >= 0 ? fmt::format("rank {}", cause.rank) : "a peer", place,
                      !has_ended && cause.rank >= 0 ? ", which has not ended on its own" : ""));
    }
    for (const std::string& line : lines_of(named->follows->cause.text)) {
      found.notes.push_back("    | " + line);
    }
  }
  finding_ = std::move(found);
}

}  // namespace dl::rendezvous
