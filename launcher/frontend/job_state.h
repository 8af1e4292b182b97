// JobState: the state of a job as one value, and the log of the events that led to it. The frontend
// writes it. Whatever shows a job (the report on SIGUSR1, later `ps` and a web page) only reads it.
//
// No input, output or clock. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "launcher/agent/agent_port.h"
#include "rendezvous/first_cause/restart_policy.h"

namespace dl::launcher {

struct RankStatus {
  enum class Is : std::uint8_t { kBeingStarted, kRunning, kEnded };
  int rank = -1;
  Is is = Is::kBeingStarted;
  int pid = -1;
  int status = 0;  // kEnded: as waitpid() gives it
};

struct JobEvent {
  enum class What : std::uint8_t { kAttemptBegan, kRankStarted, kRankEnded, kAttemptEnded };
  std::chrono::steady_clock::time_point time;
  What what = What::kAttemptBegan;
  int attempt = 0;
  int rank = -1;     // kRankStarted, kRankEnded
  int pid = -1;      // kRankStarted, kRankEnded
  int status = 0;    // kRankEnded; kAttemptEnded: the exit code of its verdict
  std::string text;  // kAttemptEnded: the first line of its verdict
};

class JobState {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // The oldest events are forgotten, so that restarts need no more memory.
  static constexpr std::size_t kMostEvents = 4096;

  // The ranks of one node begin an attempt. Called once for each node of this frontend.
  void attempt_began(int attempt, const std::vector<int>& ranks, Time now);
  void rank_changed(const RankNews& news, Time now);
  void attempt_ended(const Verdict& verdict, Time now);

  int attempt() const { return attempt_; }
  const std::vector<RankStatus>& ranks() const { return ranks_; }  // of this frontend's agents
  const std::deque<JobEvent>& events() const { return events_; }

  // For a person: "attempt 1, which began 12.3 s ago: ranks 0-2 run; rank 3 has ended", and a line
  // for each earlier attempt that is remembered.
  std::vector<std::string> page(Time now) const;

 private:
  void log(JobEvent event);

  int attempt_ = 0;
  Time began_{};
  std::vector<RankStatus> ranks_;
  std::deque<JobEvent> events_;
};

}  // namespace dl::launcher
