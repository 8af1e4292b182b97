// RankLines: one output stream of one rank, in the frontend. It takes frames, splits them into
// lines, and writes these to dlrun's own stream. A part of a line that is older than kMostHeld goes
// out without its end, unless dlrun's stream is a terminal.
//
// One thread. The Sink must outlive it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/output/lines/line_splitter.h"
#include "launcher/output/sink.h"

namespace dl::launcher {

// The look of a stream's lines.
struct LineLook {
  std::string prefix;
  bool shown = true;
  bool timestamps = false;  // each line begins with the time at which it was read
};

// The time that --timestamp-output writes before each line: "2026-01-31 23:59:59.123 ", local time.
std::string timestamp(std::chrono::system_clock::time_point time);

class RankLines {
 public:
  using Clock = std::chrono::steady_clock;
  // The longest time for which a part of a line waits for the line's end.
  static constexpr std::chrono::milliseconds kMostHeld{500};

  // `shows_status`: the unfinished line is shown as the terminal's last line.
  RankLines(Sink& sink, LineLook look, bool shows_status);

  // `time`: when the agent read the bytes.
  void take(std::string_view bytes, std::chrono::system_clock::time_point time);
  // Ends an unfinished line.
  void end();
  // When show_rest() has to be called; nullopt: no part of a line is held back.
  std::optional<Clock::time_point> shows_rest_at() const { return shows_rest_at_; }
  // Writes the part that is held back.
  void show_rest();
  const Sink& sink() const { return sink_; }

 private:
  void show();
  void see_whether_cut();

  Sink& sink_;
  bool shows_status_;
  bool timestamps_;
  LineSplitter splitter_;
  std::string lines_;
  bool status_is_mine_ = false;
  std::optional<Clock::time_point> shows_rest_at_;
};

}  // namespace dl::launcher
