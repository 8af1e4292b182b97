#include "launcher/remote/nodes/host_starts.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace dl::launcher::remote {
namespace {

// The most agents that are being started at a time. An sshd refuses more than a few connections,
// and all may go through one jump host.
constexpr std::size_t kMostStarting = 64;
constexpr std::chrono::seconds kReportEvery{5};

}  // namespace

HostStarts::HostStarts(boost::asio::io_context& io, const RemoteHosts& hosts,
                       std::chrono::milliseconds most_time, Events events)
    : hosts_(hosts), most_time_(most_time), events_(std::move(events)), timer_(io) {}

void HostStarts::begin() {
  start_some();
  watch();
}

void HostStarts::start_some() {
  while (begun_ < hosts_.size() && !stopped_) {
    const auto connecting =
        std::ranges::count_if(hosts_, [](const auto& host) { return host->is_connecting(); });
    if (static_cast<std::size_t>(connecting) >= kMostStarting) return;
    hosts_[begun_++]->connect();
  }
}

// Gives up when the nodes' own time to join is over.
void HostStarts::watch() {
  timer_.expires_after(kReportEvery);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopped_) return;
    std::vector<std::string> missing;
    for (const auto& host : hosts_) {
      if (host->is_connecting()) missing.push_back(host->name());
    }
    if (missing.empty()) return;
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_);
    const std::string who =
        fmt::format("{} {}", missing.size() == 1 ? "host" : "hosts", fmt::join(missing, ", "));
    if (waited >= most_time_) {
      events_.on_late(fmt::format("no dlrun answered within {} s on {}", waited.count(), who));
      return;
    }
    events_.on_sentence(fmt::format("waiting for {} for {} s", who, waited.count()));
    watch();
  });
}

}  // namespace dl::launcher::remote
