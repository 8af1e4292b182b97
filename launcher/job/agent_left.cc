// The agent and what does not come to its start or to its end: a program on a file system that
// hangs, a process that the kernel does not let die. Both are said, and neither holds dlrun for
// ever.
#include <fmt/core.h>
#include <signal.h>

#include "launcher/job/agent.h"
#include "launcher/process/descendants.h"

namespace dl::launcher {

// While the supervisor executes a program it does nothing else.
void Agent::watch_start() {
  start_timer_.expires_after(kSilence);
  start_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    std::vector<int> missing;
    for (const Rank& rank : ranks_) {
      if (rank.asked && !rank.running && !rank.ended) missing.push_back(rank_number(rank));
    }
    if (missing.empty()) return;
    say(
        fmt::format("{} {} not started yet after {} s: the system does not come to the end of "
                    "executing {}; does its file system hang?",
                    rank_list(missing), missing.size() == 1 ? "is" : "are", kSilence.count(),
                    plan_.executable));
  });
}

void Agent::kill_ranks() {
  signal_ranks(SIGKILL);
  expect_end({});
}

// From `lead` from now on, everything is killed and should be gone.
void Agent::expect_end(std::chrono::milliseconds lead) {
  left_timer_.expires_after(lead + kSilence);
  left_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    say_who_is_left();
    left_timer_.expires_after(kMostKilling - kSilence);
    left_timer_.async_wait([this](const boost::system::error_code& cancelled) {
      if (cancelled) return;
      gave_up_ = true;
      io_.stop();
    });
  });
}

// Ranks by their numbers; of everything else what the system knows.
std::vector<std::string> Agent::who_is_left() const {
  std::vector<std::string> left;
  for (const Rank& rank : ranks_) {
    if (rank.running && !rank.ended) {
      left.push_back(
          fmt::format("rank {}, pid {}: {}", rank_number(rank), rank.pid, why_it_stays(rank.pid)));
    } else if (rank.asked && !rank.ended) {
      left.push_back(fmt::format("rank {}, which is not started yet: executing {} does not end",
                                 rank_number(rank), plan_.executable));
    }
  }
  return left.empty() ? living_descendants() : left;
}

void Agent::say_who_is_left() {
  const std::vector<std::string> left = who_is_left();
  if (left.empty()) return;
  said_left_ = true;
  say(
      fmt::format("not ended {} s after SIGKILL; dlrun waits {} s more, and a further Ctrl-C or "
                  "SIGTERM ends it now:",
                  kSilence.count(), (kMostKilling - kSilence).count()));
  for (const std::string& one : left) say("  " + one);
}

// What is below dlrun once the loop has ended: the warden, and what that has not ended.
void Agent::end_descendants() {
  if (gave_up_ || kill_descendants(Deadline::after(kSilence))) return;
  say_who_is_left();
  gave_up_ = !kill_descendants(Deadline::after(kMostKilling - kSilence));
}

}  // namespace dl::launcher
