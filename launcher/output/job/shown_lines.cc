#include "launcher/output/job/shown_lines.h"

#include <algorithm>
#include <utility>

namespace dl::launcher {

ShownLines::ShownLines(boost::asio::io_context& io, OwnStreams& streams,
                       std::function<LineLook(const StreamId&)> look)
    : streams_(streams), look_(std::move(look)), rests_timer_(io) {}

void ShownLines::take(const Frame& frame) {
  auto found = lines_.find(frame.id);
  if (found == lines_.end()) {
    if (frame.bytes.empty()) return;  // it has written nothing
    LineLook look = frame.id.rank < 0 ? LineLook() : look_(frame.id);
    if (!look.shown) return;
    found = lines_
                .try_emplace(frame.id, streams_.of(frame.id.stream), std::move(look),
                             /*shows_status=*/frame.id.rank == 0)
                .first;
  }
  if (!frame.bytes.empty()) found->second.take(frame.bytes, frame.time);
  if (frame.is_last) {
    found->second.end();
    lines_.erase(found);
  } else if (found->second.shows_rest_at() && !rests_are_watched_) {
    watch_rests();
  }
}

// Parts of lines that wait too long for their end.
void ShownLines::watch_rests() {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [id, lines] : lines_) {
    next = std::min(next, lines.shows_rest_at().value_or(next));
  }
  rests_are_watched_ = next != Clock::time_point::max();
  if (!rests_are_watched_) return;
  rests_timer_.expires_at(next);
  rests_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const Clock::time_point now = Clock::now();
    for (auto& [id, lines] : lines_) {
      if (lines.shows_rest_at().value_or(Clock::time_point::max()) <= now) lines.show_rest();
    }
    watch_rests();
  });
}

bool ShownLines::have_ended(const Sink& sink) const {
  return std::ranges::none_of(lines_,
                              [&](const auto& entry) { return &entry.second.sink() == &sink; });
}

}  // namespace dl::launcher
