#include "launcher/rank_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dl::launcher {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;  // what a pipe holds

}  // namespace

RankOutput::RankOutput(boost::asio::io_context& io, UniqueFd pipe, Sink& sink, Options options)
    : pipe_(io),
      sink_(sink),
      options_(std::move(options)),
      splitter_(options_.prefix,
                sink.is_terminal() ? LineSplitter::For::kTerminal : LineSplitter::For::kFile,
                options_.longest_line) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  pipe_.assign(pipe.release());
  wait_for_bytes();
}

void RankOutput::wait_for_bytes() {
  pipe_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& error) {
                     if (!error) read_some();
                   });
}

void RankOutput::read_some() {
  if (ended_) return;
  if (sink_.is_full() || !sink_.may_write(this)) {
    sink_.when_room([this] { read_some(); });
    return;
  }
  bool empty = false;
  if (read_once(empty) || empty) {
    wait_for_bytes();  // after the others had their turn
  } else {
    end();
  }
}

bool RankOutput::read_once(bool& empty) {
  static char bytes[kReadBytes];
  ssize_t n;
  do {
    n = ::read(pipe_.native_handle(), bytes, sizeof bytes);
  } while (n < 0 && errno == EINTR);
  empty = n < 0 && errno == EAGAIN;
  if (n <= 0) return false;
  take(std::string_view(bytes, static_cast<std::size_t>(n)));
  return true;
}

void RankOutput::take(std::string_view bytes) {
  if (options_.log_file && log_error_.empty()) {
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const ssize_t n = ::write(options_.log_file.get(), rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        log_error_ = std::strerror(errno);
        break;
      }
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  tail_.append(bytes.substr(bytes.size() > kTail ? bytes.size() - kTail : 0));
  if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);

  splitter_.feed(bytes, lines_);
  show();
}

// Passes on the lines that are ready, and with them, in one go, the status that they leave.
void RankOutput::show() {
  if (splitter_.is_open()) {
    sink_.hold_for(this);
  } else if (sink_.is_held_by(this)) {
    sink_.hold_for(nullptr);
  }
  const std::string_view rest = options_.shows_status ? splitter_.visible_rest() : "";
  std::string status;
  if (!rest.empty()) status.append(splitter_.prefix()).append(rest);
  // The other stream of this rank may own the status now; only its owner takes it away.
  const bool speaks = !rest.empty() || status_is_mine_;
  status_is_mine_ = !rest.empty();
  sink_.write(lines_, speaks ? std::optional<std::string_view>(status) : std::nullopt);
  lines_.clear();
}

void RankOutput::take_what_is_there() {
  bool empty = false;
  // A pipe's worth twice: a writer that never stops has its turn later.
  for (std::size_t i = 0; i < 2 && !ended_ && !empty; ++i) {
    if (sink_.is_full() || !sink_.may_write(this) || !read_once(empty)) return;
  }
}

void RankOutput::end() {
  if (ended_) return;
  ended_ = true;
  splitter_.finish(lines_);
  show();
  pipe_.close();
}

void RankOutput::drain() {
  if (ended_) return;
  bool empty = false;
  while (read_once(empty)) {
  }
  end();
}

}  // namespace dl::launcher
