#include "launcher/output/job/reader_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {
namespace {

// A reader that takes nothing for this time is reported.
constexpr std::chrono::seconds kMostSilence{5};

long whole_seconds_since(ReaderWatch::Clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::seconds>(ReaderWatch::Clock::now() - since)
      .count();
}

}  // namespace

ReaderWatch::ReaderWatch(boost::asio::io_context& io, const OwnStreams& streams,
                         std::function<void(const Sink*, const std::string&)> say)
    : streams_(streams), say_(std::move(say)), timer_(io) {
  tick();
}

std::vector<int> ReaderWatch::ranks_standing_still(const Sink& sink) const {
  std::set<int> ranks;
  for (const Stream stream : streams_.streams_of(sink)) {
    if (node_ == nullptr) break;
    const std::vector<int> still = node_->ranks_standing_still(stream);
    ranks.insert(still.begin(), still.end());
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<std::string> ReaderWatch::who_stands_still() const {
  std::vector<std::string> lines;
  for (const Sink* const sink : streams_.sinks()) {
    const std::vector<int> ranks = ranks_standing_still(*sink);
    const std::optional<Clock::time_point> since = sink->waits_since();
    // A shorter wait is normal.
    if (ranks.empty() || !since || Clock::now() - *since < kTick) continue;
    lines.push_back(fmt::format("{} {} still in a write: {} has not been read for {} s",
                                rendezvous::rank_list(ranks),
                                ranks.size() == 1 ? "stands" : "stand", streams_.name_of(*sink),
                                whole_seconds_since(*since)));
  }
  if (node_ != nullptr) {
    if (std::string disk = node_->disk_sentence(); !disk.empty()) lines.push_back(std::move(disk));
  }
  return lines;
}

void ReaderWatch::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (const Sink* const sink : streams_.sinks()) watch(*sink);
    tick();
  });
}

// True if a rank waits for this stream, a rank's log is ahead of it, or dlrun's end needs it.
bool ReaderWatch::is_wanted(const Sink& sink) const {
  return finishing_ || std::ranges::any_of(streams_.streams_of(sink), [this](Stream stream) {
           return node_ != nullptr && node_->wants(stream);
         });
}

void ReaderWatch::watch(const Sink& sink) {
  const std::optional<Clock::time_point> since = sink.waits_since();
  if (sink.is_broken()) return;
  auto announced = announced_.find(&sink);
  if (announced != announced_.end() && since != announced->second) {
    say_(&sink, fmt::format("{} is read again, after {} s", streams_.name_of(sink),
                            whole_seconds_since(announced->second)));
    announced_.erase(announced);
    announced = announced_.end();
  }
  if (announced != announced_.end() || !since || Clock::now() - *since < kMostSilence) return;
  if (!is_wanted(sink)) return;
  announced_[&sink] = *since;
  say_(&sink, fmt::format("{} has {} for {} s: {}", streams_.name_of(sink),
                          sink.is_file() ? "taken nothing" : "not been read",
                          whole_seconds_since(*since), what_follows(sink)));
}

// What the silence of this reader means for the job.
std::string ReaderWatch::what_follows(const Sink& sink) const {
  if (finishing_) {
    return fmt::format("all ranks have ended, and dlrun waits to write the last {} bytes",
                       sink.unwritten());
  }
  if (const std::vector<int> still = ranks_standing_still(sink); !still.empty()) {
    return fmt::format("{} {} still until it is read", rendezvous::rank_list(still),
                       still.size() == 1 ? "stands" : "stand");
  }
  if (node_ != nullptr && node_->has_logs()) {
    return fmt::format("the ranks go on, and what they write is in {}", node_->run_folder());
  }
  return "the ranks stand still once their pipes are full";
}

}  // namespace dl::launcher
