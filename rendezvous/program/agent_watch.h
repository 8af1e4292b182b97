// AgentWatch: tells dlrun-rendezvous whether the event loop of its dlrun runs, and if not, why.
//
// dlrun reports every second that its loop runs. Before Ctrl-Z stops it, it reports that too. If no
// report comes, the process state in /proc says whether dlrun is stopped. One thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "rendezvous/net/patience.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

struct AgentWatchOptions {
  // After this time without a report, the other nodes are told.
  std::chrono::nanoseconds named_after;
  // After this time without a report, this node leaves the job, unless the user has suspended
  // dlrun.
  std::chrono::nanoseconds timeout;
  // Whether dlrun's process is stopped.
  std::function<bool()> is_stopped;
};

class AgentWatch {
 public:
  using Time = Deadline::Clock::time_point;

  AgentWatch(AgentWatchOptions options, Time now)
      : options_(std::move(options)), heard_(now), patience_(options_.named_after) {}

  // dlrun reported TURNS or SUSPENDED. Returns what to tell the other nodes, if anything.
  std::optional<dlrun::rendezvous::Agent> on_word(dlrun::rendezvous::Agent::State state, Time now);
  // Time in which this process itself did not run does not count against dlrun.
  void forgive(std::chrono::nanoseconds missed, Time now) {
    heard_ = std::min(now, heard_ + missed);
  }
  // Returns what to tell the other nodes now, if anything.
  std::optional<dlrun::rendezvous::Agent> on_time(Time now);
  // The reason to leave the job: "its dlrun has been stopped for 600 s"; nullopt: there is none
  // yet.
  std::optional<std::string> too_late(Time now) const;
  bool is_stopped() const { return options_.is_stopped(); }

 private:
  dlrun::rendezvous::Agent state(dlrun::rendezvous::Agent::State state, Time now) const;

  AgentWatchOptions options_;
  Time heard_;
  bool suspended_ = false;  // as dlrun itself reported
  bool named_ = false;      // the other nodes were told that its loop does not run
  Patience patience_;
};

// Whether the process is stopped, by a signal or a debugger.
bool is_process_stopped(pid_t pid);

}  // namespace dl::rendezvous
