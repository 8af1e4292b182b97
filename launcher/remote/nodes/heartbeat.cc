#include "launcher/remote/nodes/heartbeat.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dl::launcher::remote {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Beats without a message after which an agent is reported, and after a hurry() lost.
constexpr int kSilentFrom = 3;
constexpr int kMostInHurry = 5;

}  // namespace

Heartbeat::Heartbeat(boost::asio::io_context& io, const RemoteHosts& hosts,
                     std::chrono::milliseconds every, std::chrono::milliseconds most_silence,
                     Events events)
    : hosts_(hosts),
      every_(every),
      most_silence_(most_silence),
      events_(std::move(events)),
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

void Heartbeat::hurry() {
  if (std::exchange(hurries_, true)) return;
  most_silence_ = std::min(most_silence_, kMostInHurry * every_);
  look_for_silence();
}

std::chrono::steady_clock::duration Heartbeat::stood_still() const {
  const Clock::time_point now = Clock::now();
  const Clock::duration late = now - last_ - every_;
  if (late >= kSilentFrom * every_) return late + every_ / 2;
  return now - stood_until_ < kSilentFrom * every_ ? stood_ : Clock::duration(0);
}

void Heartbeat::look_for_silence() {
  const Clock::time_point now = Clock::now();
  const Clock::duration late = now - std::exchange(last_, now) - every_;
  if (late >= kSilentFrom * every_) {
    stood_ = late + every_ / 2;  // it began at some moment between two beats
    stood_until_ = now;
  }
  if (!events_.ends()) return;
  // Time in which this process did not run does not count as an agent's silence.
  if (!ends_from_ || late > every_) ends_from_ = now;
  for (const auto& host : hosts_) {
    if (!host->is_there()) continue;
    const Clock::duration silence = now - std::max(host->heard(), *ends_from_);
    if (silence >= most_silence_) {
      events_.on_lost(*host,
                      fmt::format("its dlrun has said nothing for {:g} s", seconds(most_silence_)));
    } else if (silence >= kSilentFrom * every_ && std::ranges::count(said_, host->node()) == 0) {
      said_.push_back(host->node());
      const auto in_hurry = std::min(most_silence_, kMostInHurry * every_);
      events_.on_silent(fmt::format(
          "waiting for host {}, whose dlrun has said nothing for {:.0f} s; after {:g} s it counts "
          "as lost{}",
          host->name(), seconds(silence), seconds(most_silence_),
          hurries_ ? ""
                   : fmt::format(", and after {:g} s if you stop dlrun again", seconds(in_hurry))));
    }
  }
}

}  // namespace dl::launcher::remote
