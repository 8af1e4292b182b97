#include "launcher/pmi/lines/line_socket.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <cerrno>

#include "core/base/error.h"

namespace dl::launcher {

LineSocket::LineSocket(boost::asio::io_context& io, UniqueFd fd, std::size_t longest_line,
                       Events events)
    : socket_(io, fd.release()), longest_line_(longest_line), events_(std::move(events)) {
  socket_.non_blocking(true);
  wait_for_lines();
}

void LineSocket::wait_for_lines() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) return;
                       read();
                       if (is_open()) wait_for_lines();
                     });
}

bool LineSocket::read() {
  char bytes[4096];
  boost::system::error_code error;
  const std::size_t n = socket_.read_some(boost::asio::buffer(bytes), error);
  if (error == boost::asio::error::would_block) return false;
  if (error) {
    end(/*is_line_too_long=*/false);
    return false;
  }
  unread_.append(bytes, n);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    events_.on_line(std::string_view(unread_).substr(begin, end - begin));
    if (!is_open()) return false;
  }
  unread_.erase(0, begin);
  if (unread_.size() > longest_line_) {
    end(/*is_line_too_long=*/true);
    return false;
  }
  return true;
}

void LineSocket::end(bool is_line_too_long) {
  socket_.close();
  events_.on_closed(is_line_too_long);
}

void LineSocket::send(std::string_view text) {
  if (!is_open()) return;
  unsent_ += text;
  if (!writes_) write();
}

void LineSocket::close_sending() {
  if (is_open()) ::shutdown(socket_.native_handle(), SHUT_WR);
}

void LineSocket::write() {
  boost::system::error_code error;
  const std::size_t n = socket_.write_some(boost::asio::buffer(unsent_), error);
  if (error && error != boost::asio::error::would_block) {
    // What the peer sent before it closed is still to be read, so the reader closes the socket.
    unsent_.clear();
    writes_ = false;
    return;
  }
  unsent_.erase(0, n);
  writes_ = !unsent_.empty();
  if (!writes_) return;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                     [this](const boost::system::error_code& failed) {
                       if (!failed) write();
                     });
}

LineSocketEnds make_line_socket() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_errno(errno, "socketpair");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace dl::launcher
