// ShownLines: the lines of all ranks on their way to dlrun's streams. A part of a line that waits
// too long for its end is shown without it.
//
// One thread; all constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>

#include "launcher/output/frame.h"
#include "launcher/output/job/own_streams.h"
#include "launcher/output/lines/rank_lines.h"

namespace dl::launcher {

class ShownLines {
 public:
  // `look` is called for a rank's stream when its first bytes come.
  ShownLines(boost::asio::io_context& io, OwnStreams& streams,
             std::function<LineLook(const StreamId&)> look);

  void take(const Frame& frame);
  // True if every stream that goes to this Sink has ended.
  bool have_ended(const Sink& sink) const;

 private:
  using Clock = std::chrono::steady_clock;

  void watch_rests();

  OwnStreams& streams_;
  std::function<LineLook(const StreamId&)> look_;
  std::map<StreamId, RankLines> lines_;  // of streams that have not ended
  boost::asio::steady_timer rests_timer_;
  bool rests_are_watched_ = false;
};

}  // namespace dl::launcher
