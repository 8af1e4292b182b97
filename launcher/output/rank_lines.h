// RankLines: one output stream of one rank, in the front. It takes frames, splits them into lines,
// and writes these to dlrun's own stream.
//
// One thread. The Sink must outlive it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "launcher/output/line_splitter.h"
#include "launcher/output/sink.h"

namespace dl::launcher {

// The look of a stream's lines.
struct LineLook {
  std::string prefix;
  bool shown = true;
  bool timestamps = false;  // each line begins with the time at which it was read
};

class RankLines {
 public:
  // `shows_status`: the unfinished line is shown as the terminal's last line.
  RankLines(Sink& sink, LineLook look, bool shows_status);

  // `time`: when the agent read the bytes.
  void take(std::string_view bytes, std::chrono::system_clock::time_point time);
  // Ends an unfinished line.
  void end();
  const Sink& sink() const { return sink_; }

 private:
  void show();

  Sink& sink_;
  bool shows_status_;
  bool timestamps_;
  LineSplitter splitter_;
  std::string lines_;
  bool status_is_mine_ = false;
};

}  // namespace dl::launcher
