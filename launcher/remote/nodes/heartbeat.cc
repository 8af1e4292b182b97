#include "launcher/remote/nodes/heartbeat.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dl::launcher::remote {

Heartbeat::Heartbeat(boost::asio::io_context& io, const RemoteHosts& hosts,
                     std::chrono::milliseconds every, std::chrono::milliseconds most_silence,
                     std::function<bool()> ends)
    : hosts_(hosts),
      every_(every),
      most_silence_(most_silence),
      ends_(std::move(ends)),
      timer_(io) {}

// An agent that hears nothing assumes that the frontend is gone.
void Heartbeat::beat() {
  look_for_silence();
  for (const auto& host : hosts_) {
    if (host->is_there()) host->send(Alive{});
  }
  timer_.expires_after(every_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) beat();
  });
}

void Heartbeat::look_for_silence() {
  const Clock::time_point now = Clock::now();
  const Clock::duration late = now - std::exchange(last_, now) - every_;
  if (!ends_()) return;
  // Time in which this process did not run does not count as an agent's silence.
  if (!ends_from_ || late > every_) ends_from_ = now;
  for (const auto& host : hosts_) {
    if (host->is_there() && now - std::max(host->heard(), *ends_from_) >= most_silence_) {
      host->lose(fmt::format("its dlrun has said nothing for {:g} s",
                             std::chrono::duration<double>(most_silence_).count()));
    }
  }
}

}  // namespace dl::launcher::remote
