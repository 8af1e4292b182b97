// One output stream of one rank: from the pipe through the splitter to dlrun's own stream, and to
// the log file where there is one.
//
// One thread. Sink and io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>

#include "core/base/unique_fd.h"
#include "launcher/line_splitter.h"
#include "launcher/sink.h"

namespace dl::launcher {

class RankOutput {
 public:
  struct Options {
    std::string prefix;
    UniqueFd log_file;          // not open: none
    bool shows_status = false;  // its unfinished line is the terminal's last line
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
  // Why the log file is incomplete; empty: it is not.
  const std::string& log_error() const { return log_error_; }

 private:
  // Room for a Python traceback with the C++ frames that torch adds.
  static constexpr std::size_t kTail = std::size_t{16} * 1024;

  void wait_for_bytes();
  void read_some();
  // False at the end of the stream, or where the pipe is empty (`empty` is set then).
  bool read_once(bool& empty);
  void take(std::string_view bytes);
  void show();
  void end();

  boost::asio::posix::stream_descriptor pipe_;
  Sink& sink_;
  Options options_;
  LineSplitter splitter_;
  std::string lines_;
  std::string tail_;
  std::string log_error_;
  bool status_is_mine_ = false;
  bool ended_ = false;
};

}  // namespace dl::launcher
