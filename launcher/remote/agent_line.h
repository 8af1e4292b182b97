// AgentLine: connects a frontend with the agent of one host, by a process of its own (ssh_line.h)
// or by connections of a step of srun.
//
// One thread. No event is called after the line is destroyed, and no event may destroy it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/system/unique_fd.h"

namespace dl::launcher::remote {

class AgentLine {
 public:
  struct Events {
    // Called once. The agent's output comes from `in`, and its input goes to `out`.
    std::function<void(UniqueFd in, UniqueFd out)> on_open;
    // A line that the process itself writes after the agent has answered, as it is shown: "srun:
    // error: ...".
    std::function<void(const std::string& line)> on_said;
    // has_ended() may have changed.
    std::function<void()> on_ended;
  };

  virtual ~AgentLine() = default;
  // To be called once. on_open may be called before it returns, or never.
  virtual void connect(Events events) = 0;
  // To be called when the agent has sent its first message. Everything on the line's stderr before
  // that came from the login.
  virtual void on_answered() {}
  // To be called if `in` has ended before the agent's last message.
  virtual void on_closed() {}
  // Ends the line, and with it the agent.
  virtual void kill() = 0;

  // True if the line has ended, even if `in` was not read to its end.
  virtual bool has_ended() const = 0;
  // True if nothing of the agent can come from `in` once the line has ended, but what has come.
  virtual bool ends_stream() const { return true; }
  // To be called after has_ended(). A sentence with the host's name. `noise`: the end of what came
  // from `in`, none of which was the agent's.
  virtual std::string why_not_started(std::string_view noise) const = 0;
  virtual std::string how_it_was_lost() const = 0;
};

}  // namespace dl::launcher::remote
