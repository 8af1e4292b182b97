// What dlrun-rendezvous knows of its own dlrun: whether it turns its event loop, and if not, why.
//
// dlrun says every second that it turns, and before Ctrl-Z stops it that it will not. What it does
// not say, the kernel does (its state in /proc). One thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "rendezvous/membership.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

struct AgentWatchOptions {
  std::chrono::nanoseconds named_after;  // it is told that it does not turn
  std::chrono::nanoseconds timeout;      // and now it is too late; a suspended one is never
  // Whether dlrun's process is stopped.
  std::function<bool()> is_stopped;
};

class AgentWatch {
 public:
  using Time = Deadline::Clock::time_point;

  AgentWatch(AgentWatchOptions options, Time now)
      : options_(std::move(options)), heard_(now), patience_(options_.named_after) {}

  // dlrun said something: TURNS, or SUSPENDED. What the others should hear of it, if anything.
  std::optional<dlrun::rendezvous::Agent> on_word(dlrun::rendezvous::Agent::State state, Time now);
  // Time in which this process did not run cannot be held against dlrun.
  void forgive(std::chrono::nanoseconds missed, Time now) {
    heard_ = std::min(now, heard_ + missed);
  }
  // What the others should hear now.
  std::optional<dlrun::rendezvous::Agent> on_time(Time now);
  // "its dlrun has been stopped for 600 s"; no value: it is not too late.
  std::optional<std::string> too_late(Time now) const;
  bool is_stopped() const { return options_.is_stopped(); }

 private:
  dlrun::rendezvous::Agent state(dlrun::rendezvous::Agent::State state, Time now) const;

  AgentWatchOptions options_;
  Time heard_;
  bool suspended_ = false;  // by its own word
  bool named_ = false;      // the others have heard that it does not turn
  Patience patience_;
};

// Whether the process is stopped, by a signal or a debugger.
bool is_process_stopped(pid_t pid);

}  // namespace dl::rendezvous
