// How a front reaches the agent of one host: over a process of its own (ssh_line.h), or over
// connections of a step of srun.
//
// One thread. Nothing is called any more once the line is destroyed; no event may destroy it.
#pragma once

#include <functional>
#include <string>

#include "core/base/unique_fd.h"

namespace dl::launcher::remote {

class AgentLine {
 public:
  struct Events {
    // Once: what the agent writes comes from `in`, what it is to read goes to `out`.
    std::function<void(UniqueFd in, UniqueFd out)> on_open;
    // What the line itself says once the agent has answered, as it is shown: "srun: error: ...".
    std::function<void(const std::string& line)> on_said;
    // has_ended() may have changed.
    std::function<void()> on_ended;
  };

  virtual ~AgentLine() = default;
  // Once. on_open may come before it returns, or never.
  virtual void connect(Events events) = 0;
  // The agent has said its first word: what came on the line's stderr before was a login's noise.
  virtual void on_answered() {}
  // `in` has ended before the agent's last word.
  virtual void on_closed() {}
  // Ends the line, and with it the agent.
  virtual void kill() = 0;

  // The line is over, except that `in` may not have been read to its end.
  virtual bool has_ended() const = 0;
  // After has_ended(): a sentence with the host's name.
  virtual std::string why_not_started() const = 0;
  virtual std::string how_it_was_lost() const = 0;
};

}  // namespace dl::launcher::remote
