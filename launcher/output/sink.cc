#include "launcher/output/sink.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

// The beginning of a text that fits into this many columns, one for each code point.
std::string_view clipped(std::string_view text, int columns) {
  int used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (begins && used++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

Sink::Sink(boost::asio::io_context& io, DiskThread& disk, int fd,
           std::function<void(int)> on_broken)
    : watched_(io), disk_(disk), fd_(fd), on_broken_(std::move(on_broken)) {
  struct stat about{};
  if (::fstat(fd, &about) != 0) throw_errno(errno, "fstat of dlrun's output");
  terminal_ = ::isatty(fd) == 1;
  if (S_ISREG(about.st_mode)) {
    way_ = Way::kFile;
    return;
  }
  if (!terminal_ && !S_ISFIFO(about.st_mode) && !S_ISSOCK(about.st_mode)) return;
  if (!S_ISSOCK(about.st_mode)) {
    const int own = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                           O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (own >= 0) {
      way_ = Way::kNonBlocking;
      fd_ = own;
      watched_.assign(own);
      return;
    }
  }
  // Another user's terminal (after su) cannot be opened; once it is writable, it takes a small
  // piece without blocking.
  way_ = S_ISSOCK(about.st_mode) ? Way::kSocket : Way::kSmallPieces;
  const int watcher = ::epoll_create1(EPOLL_CLOEXEC);
  if (watcher < 0) throw_errno(errno, "epoll_create1");
  epoll_event event{};
  ::epoll_ctl(watcher, EPOLL_CTL_ADD, fd_, &event);
  watched_.assign(watcher);
}

int Sink::columns() const {
  winsize size{};
  if (!terminal_) return 0;
  const bool is_known = ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUsualColumns;
}

void Sink::write(std::string_view lines, std::optional<std::string_view> status) {
  if (broken_) return;
  if (!lines.empty() && std::exchange(writer_, nullptr) != nullptr) queued_ += '\n';
  queued_.append(lines);
  if (terminal_ && status) status_ = *status;
  if (!waits_) write_some();
}

void Sink::write_part(std::string_view text, const void* writer) {
  if (broken_ || text.empty()) return;
  if (writer_ != nullptr && writer_ != writer) queued_ += '\n';
  writer_ = text.ends_with('\n') ? nullptr : writer;
  queued_.append(text);
  if (!waits_) write_some();
}

// Takes the next bytes to write; returns false if there are none.
bool Sink::refill() {
  if (at_ < writing_.size()) return true;
  writing_.clear();
  at_ = 0;
  if (queued_.empty() && status_ == status_shown_) return false;
  if (!status_shown_.empty()) writing_ += "\r\x1b[K";
  writing_ += queued_;
  // One escape sequence could not erase a line that wraps.
  writing_ += clipped(status_, std::max(1, columns() - 1));
  queued_.clear();
  status_shown_ = status_;
  return true;
}

long Sink::write_once() {
  const char* const from = writing_.data() + at_;
  std::size_t n = writing_.size() - at_;
  if (way_ == Way::kSocket) return ::send(fd_, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == Way::kSmallPieces) {
    pollfd writable{fd_, POLLOUT, 0};
    if (::poll(&writable, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
    n = std::min<std::size_t>(n, PIPE_BUF);
  }
  return ::write(fd_, from, n);
}

void Sink::write_some() {
  while (!broken_ && refill()) {
    if (way_ == Way::kFile) {
      write_to_file();
      return;
    }
    const long n = write_once();
    if (n >= 0) {
      on_progress(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      wait_until_writable();
      return;
    } else if (errno != EINTR) {
      fail(errno);
      return;
    }
  }
  wake();
}

void Sink::on_progress(std::size_t bytes) {
  at_ += bytes;
  if (bytes > 0) waits_since_.reset();
}

void Sink::write_to_file() {
  struct Written {
    std::size_t bytes = 0;
    int error = 0;
  };
  waits_ = true;
  waits_since_ = Clock::now();
  disk_.run(
      [fd = fd_, bytes = writing_] {
        Written written;
        while (written.bytes < bytes.size() && written.error == 0) {
          const ssize_t n = ::write(fd, bytes.data() + written.bytes, bytes.size() - written.bytes);
          if (n >= 0) written.bytes += static_cast<std::size_t>(n);
          if (n < 0 && errno != EINTR) written.error = errno;
        }
        return written;
      },
      [this](Written written) {
        waits_ = false;
        on_progress(written.bytes);
        waits_since_.reset();
        if (written.error != 0) {
          fail(written.error);
        } else {
          write_some();
        }
      });
}

void Sink::wait_until_writable() {
  waits_ = true;
  if (!waits_since_) waits_since_ = Clock::now();
  auto event = boost::asio::posix::stream_descriptor::wait_write;
  if (way_ != Way::kNonBlocking) {
    epoll_event once{};
    once.events = EPOLLOUT | EPOLLONESHOT;
    ::epoll_ctl(watched_.native_handle(), EPOLL_CTL_MOD, fd_, &once);
    event = boost::asio::posix::stream_descriptor::wait_read;  // of the watcher
  }
  watched_.async_wait(event, [this](const boost::system::error_code& error) {
    waits_ = false;
    if (!error) write_some();
  });
}

void Sink::fail(int error) {
  broken_ = true;
  queued_.clear();
  writing_.clear();
  at_ = 0;
  waits_since_.reset();
  wake();
  if (on_broken_) on_broken_(error);
}

void Sink::wake() {
  while (!is_full() && !waiting_.empty()) {
    boost::asio::post(watched_.get_executor(), std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

}  // namespace dl::launcher
