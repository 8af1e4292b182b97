// HostStarts: connects the hosts of a job to their agents, some at a time, and reports for which
// hosts it waits.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/remote/ssh/remote_host.h"

namespace dl::launcher::remote {

using RemoteHosts = std::vector<std::unique_ptr<RemoteHost>>;

class HostStarts {
 public:
  struct Events {
    std::function<void(const std::string& line)> on_sentence;
    // Some hosts have not answered in time; the sentence says which.
    std::function<void(const std::string& why)> on_late;
  };
  // `most_time`: for all agents to answer.
  HostStarts(boost::asio::io_context& io, const RemoteHosts& hosts,
             std::chrono::milliseconds most_time, Events events);

  void begin();
  // To be called when a host has answered or is gone: others may have their turn.
  void start_some();
  // The job ends: no further host is connected, and none is reported.
  void stop() { stopped_ = true; }
  // The job is over.
  void cancel() { timer_.cancel(); }

 private:
  using Clock = std::chrono::steady_clock;

  void watch();

  const RemoteHosts& hosts_;
  std::chrono::milliseconds most_time_;
  Events events_;
  boost::asio::steady_timer timer_;
  Clock::time_point began_ = Clock::now();
  std::size_t begun_ = 0;
  bool stopped_ = false;
};

}  // namespace dl::launcher::remote
