#include "rendezvous/program/agent_watch.h"

#include <fmt/format.h>

#include "core/base/system/process/process_stat.h"

namespace dl::rendezvous {

using dlrun::rendezvous::Agent;

Agent AgentWatch::state(Agent::State state, Time now) const {
  Agent agent;
  agent.set_state(state);
  agent.set_seconds(
      static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(now - heard_).count()));
  return agent;
}

std::optional<Agent> AgentWatch::on_word(Agent::State said, Time now) {
  std::optional<Agent> news;
  if (named_) news = state(Agent::TURNS, now);
  named_ = false;
  suspended_ = said == Agent::SUSPENDED;
  heard_ = now;
  patience_ = Patience(options_.named_after);
  return news;
}

std::optional<Agent> AgentWatch::on_time(Time now) {
  if (!patience_.should_warn_after(now - heard_)) return std::nullopt;
  named_ = true;
  return state(suspended_              ? Agent::SUSPENDED
               : options_.is_stopped() ? Agent::STOPPED
                                       : Agent::STUCK,
               now);
}

std::optional<std::string> AgentWatch::too_late(Time now) const {
  if (suspended_ || now - heard_ < options_.timeout) return std::nullopt;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - heard_).count();
  return options_.is_stopped()
             ? fmt::format("its dlrun has been stopped for {} s", seconds)
             : fmt::format("its dlrun has not run its event loop for {} s", seconds);
}

bool is_process_stopped(pid_t pid) {
  const char state = read_stat(fmt::format("/proc/{}", pid)).state;
  return state == 'T' || state == 't';
}

}  // namespace dl::rendezvous
