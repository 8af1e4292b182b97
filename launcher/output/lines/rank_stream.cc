#include "launcher/output/lines/rank_stream.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "launcher/process/start/rank_files.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;  // what a pipe holds

}  // namespace

RankStream::RankStream(boost::asio::io_context& io, StreamId id, UniqueFd pipe,
                       FrameTaker& frontend, std::unique_ptr<LogFile> log)
    : id_(id), pipe_(io), frontend_(frontend), log_(std::move(log)) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  pipe_.assign(pipe.release());
  wait_for_bytes();
}

void RankStream::wait_for_bytes() {
  pipe_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& error) {
                     if (!error) read_some();
                   });
}

void RankStream::read_some() {
  if (ended_ || !may_read()) return;
  bool empty = false;
  if (read_once(empty) || empty) {
    wait_for_bytes();  // after the others had their turn
  } else {
    end();
  }
}

// If it returns false, read_some() is called when that has changed.
bool RankStream::may_read() {
  held_by_ = HeldBy::kNothing;
  LogFile* const log = log_.get();
  if (log != nullptr && !log->is_broken()) {
    if (!log->is_full()) return true;
    held_by_ = HeldBy::kDisk;
    log->when_room([this] { read_some(); });
  } else if (behind() > 0) {
    held_by_ = HeldBy::kReader;
    reads_then_ = true;
  } else if (!frontend_.has_room(id_.stream)) {
    held_by_ = HeldBy::kReader;
    when_front_has_room(&RankStream::read_some);
  }
  return held_by_ == HeldBy::kNothing;
}

bool RankStream::read_once(bool& empty) {
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

void RankStream::take(std::string_view bytes) {
  tail_.append(bytes.substr(bytes.size() > kTail ? bytes.size() - kTail : 0));
  if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);

  LogFile* const log = log_.get();
  const bool is_logged = log != nullptr && (!log->is_broken() || behind() > 0);
  const bool sends_now = behind() == 0 && (!is_logged || frontend_.has_room(id_.stream));
  if (is_logged) log->append(bytes);
  if (!sends_now) {
    if (!catches_up_) catch_up();
    return;
  }
  if (is_logged) sent_ += bytes.size();
  send(bytes);
}

void RankStream::catch_up() {
  catches_up_ = true;
  if (behind() == 0) {
    catches_up_ = false;
    if (ended_) {
      end_sent();
    } else if (std::exchange(reads_then_, false)) {
      read_some();
    }
  } else if (!frontend_.has_room(id_.stream)) {
    when_front_has_room(&RankStream::catch_up);
  } else {
    log_->read(sent_, [this](const std::string& bytes) { send_logged(bytes); });
  }
}

void RankStream::send_logged(const std::string& bytes) {
  if (bytes.empty()) {
    const std::string gap =
        fmt::format("[dlrun: {} bytes could not be read back from the log]\n", behind());
    sent_ = log_->size();
    send(gap);
  } else {
    sent_ += bytes.size();
    send(bytes);
  }
  boost::asio::post(pipe_.get_executor(), [this] { catch_up(); });  // after the others' turn
}

void RankStream::when_front_has_room(void (RankStream::*then)()) {
  ++callbacks_;
  frontend_.when_room(id_.stream, [this, then] {
    --callbacks_;
    (this->*then)();
  });
}

bool RankStream::is_settled() const {
  return is_sent_ && callbacks_ == 0 && (!log_ || (!log_->is_broken() && log_->unwritten() == 0));
}

void RankStream::send(std::string_view bytes, bool is_last) {
  frontend_.take({id_, std::chrono::system_clock::now(), bytes, is_last});
}

bool RankStream::is_standing_still() const {
  if (held_by_ == HeldBy::kNothing) return false;
  // Only the writing end can tell that, and the pipe can be opened at that end too.
  const UniqueFd writer(
      ::open(path_of_descriptor(pipe_.native_handle()).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  pollfd writable{writer.get(), POLLOUT, 0};
  return writer && ::poll(&writable, 1, 0) == 0;
}

void RankStream::take_what_is_there() {
  bool empty = false;
  // Reads at most twice the size of a pipe: a writer that never stops continues later.
  for (std::size_t i = 0; i < 2 && !ended_ && !empty; ++i) {
    if (!read_once(empty)) return;
  }
}

void RankStream::end() {
  if (ended_) return;
  ended_ = true;
  held_by_ = HeldBy::kNothing;
  pipe_.close();
  if (!catches_up_) end_sent();
}

void RankStream::end_sent() {
  if (is_sent_) return;
  is_sent_ = true;
  send({}, /*is_last=*/true);
}

void RankStream::drain() {
  if (ended_) return;
  bool empty = false;
  while (read_once(empty)) {
  }
  end();
}

}  // namespace dl::launcher
