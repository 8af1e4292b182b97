// One output stream of one rank: from the pipe through the splitter to dlrun's own stream, and to
// the log file where there is one.
//
// Without a log file the pipe is not read while dlrun's stream is full, and the rank stands still.
// With one the rank goes on: what dlrun's stream cannot take yet is read back from the file later,
// so that nothing is lost and memory has a bound.
//
// One thread. Sink, DiskThread and io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/unique_fd.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/log_file.h"
#include "launcher/output/sink.h"

namespace dl::launcher {

class RankOutput {
 public:
  struct Options {
    std::string prefix;
    std::unique_ptr<LogFile> log;  // null: none
    bool shows_status = false;     // its unfinished line is the terminal's last line
    std::size_t longest_line = LineSplitter::kLongest;
  };

  // `pipe` is the reading end; `sink` is where lines go.
  RankOutput(boost::asio::io_context& io, UniqueFd pipe, Sink& sink, Options options);
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  // Reads what is in the pipe now, so that tail() is up to date; the stream goes on.
  void take_what_is_there();

  // Takes what is in the pipe now, however full the sink is, and ends the stream. For the time when
  // every writer is dead.
  void drain();

  // The last lines, for the report; at most kTail bytes.
  const std::string& tail() const { return tail_; }
  const LogFile* log() const { return options_.log.get(); }

  // The stream has ended, and the sink has all of it.
  bool is_shown() const { return shown_to_its_end_; }
  // Read and logged, and not shown yet.
  std::uint64_t behind() const { return options_.log ? options_.log->size() - shown_ : 0; }

  // Why the pipe is not read at the moment.
  enum class HeldBy : std::uint8_t { kNothing, kReader, kDisk };
  HeldBy held_by() const { return held_by_; }
  // And the pipe is full, so that the rank waits in a write, or will at its next one.
  bool is_standing_still();
  const Sink& sink() const { return sink_; }

 private:
  // Room for a Python traceback with the C++ frames that torch adds.
  static constexpr std::size_t kTail = std::size_t{16} * 1024;

  void wait_for_bytes();
  void read_some();
  bool may_read();
  // False at the end of the stream, or where the pipe is empty (`empty` is set then).
  bool read_once(bool& empty);
  void take(std::string_view bytes);
  void catch_up();
  void show_logged(const std::string& bytes);
  void show();
  void end();
  void end_shown();

  boost::asio::posix::stream_descriptor pipe_;
  Sink& sink_;
  Options options_;
  LineSplitter splitter_;
  std::string lines_;
  std::string tail_;
  std::uint64_t shown_ = 0;  // bytes of the log file
  HeldBy held_by_ = HeldBy::kNothing;
  bool catches_up_ = false;
  bool reads_then_ = false;  // once it has caught up
  bool status_is_mine_ = false;
  bool ended_ = false;
  bool shown_to_its_end_ = false;
};

}  // namespace dl::launcher
