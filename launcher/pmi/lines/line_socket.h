// LineSocket: a connection over which both sides send lines. It never blocks.
//
// One thread; the io_context must outlive it. It may be closed, but not destroyed, inside one of
// its own callbacks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/system/unique_fd.h"

namespace dl::launcher {

class LineSocket {
 public:
  struct Events {
    // A line without its end.
    std::function<void(std::string_view line)> on_line;
    // The peer has closed the connection, or sends a line of more than `longest_line` bytes.
    std::function<void(bool is_line_too_long)> on_closed;
  };
  LineSocket(boost::asio::io_context& io, UniqueFd fd, std::size_t longest_line, Events events);
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;

  bool is_open() const { return socket_.is_open(); }
  // Reads once. Returns false if there is nothing to read, or the connection is closed.
  bool read();
  // `text` has the end of its line.
  void send(std::string_view text);
  // The peer sees the end of the lines; this side reads on.
  void close_sending();
  // on_closed is not called.
  void close() { socket_.close(); }

 private:
  void wait_for_lines();
  void write();
  void end(bool is_line_too_long);

  boost::asio::posix::stream_descriptor socket_;
  std::size_t longest_line_;
  Events events_;
  std::string unread_;
  std::string unsent_;
  bool writes_ = false;
};

// The two ends of a new connection; both close on exec. Throws kIo.
struct LineSocketEnds {
  UniqueFd ours;
  UniqueFd theirs;
};
LineSocketEnds make_line_socket();

}  // namespace dl::launcher
