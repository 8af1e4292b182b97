// Heartbeat: tells the agents of all hosts that the frontend is there, and once the job ends, finds
// agents that are silent. While the job runs, the nodes notice each other's silence.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/remote/nodes/host_starts.h"

namespace dl::launcher::remote {

class Heartbeat {
 public:
  struct Events {
    std::function<bool()> ends;  // whether the job ends
    // An agent has sent nothing for a few beats; once for each host. `text`: a sentence.
    std::function<void(const std::string& text)> on_silent;
    // An agent is lost. `how`: a clause.
    std::function<void(RemoteHost& host, const std::string& how)> on_lost;
  };
  // Sends Alive every `every`. Once the job ends, an agent that sends nothing for `most_silence` is
  // lost.
  Heartbeat(boost::asio::io_context& io, const RemoteHosts& hosts, std::chrono::milliseconds every,
            std::chrono::milliseconds most_silence, Events events);

  void begin() { beat(); }
  // A user wants the end now: from now on, an agent that sends nothing for a few beats is lost.
  void hurry();
  void cancel() { timer_.cancel(); }
  // How long this process did not run, if it was so long that agents may have given it up, until
  // now or a moment ago; else 0.
  std::chrono::steady_clock::duration stood_still() const;

 private:
  using Clock = std::chrono::steady_clock;

  void beat();
  void look_for_silence();

  const RemoteHosts& hosts_;
  std::chrono::milliseconds every_;
  std::chrono::milliseconds most_silence_;
  Events events_;
  std::vector<int> said_;  // the nodes whose silence was reported
  bool hurries_ = false;
  boost::asio::steady_timer timer_;
  Clock::time_point last_ = Clock::now();
  Clock::duration stood_{0};  // the last standstill
  Clock::time_point stood_until_{};
  std::optional<Clock::time_point> ends_from_;  // the job's end is known
};

}  // namespace dl::launcher::remote
