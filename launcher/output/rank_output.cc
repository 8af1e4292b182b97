#include "launcher/output/rank_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "launcher/process/rank_files.h"

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
  if (ended_ || !may_read()) return;
  bool empty = false;
  if (read_once(empty) || empty) {
    wait_for_bytes();  // after the others had their turn
  } else {
    end();
  }
}

// If not, read_some() is called when that has changed.
bool RankOutput::may_read() {
  held_by_ = HeldBy::kNothing;
  LogFile* const log = options_.log.get();
  if (log != nullptr && !log->is_broken()) {
    if (!log->is_full()) return true;
    held_by_ = HeldBy::kDisk;
    log->when_room([this] { read_some(); });
  } else if (behind() > 0) {
    held_by_ = HeldBy::kReader;
    reads_then_ = true;
  } else if (sink_.is_full()) {
    held_by_ = HeldBy::kReader;
    sink_.when_room([this] { read_some(); });
  }
  return held_by_ == HeldBy::kNothing;
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
  tail_.append(bytes.substr(bytes.size() > kTail ? bytes.size() - kTail : 0));
  if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);

  LogFile* const log = options_.log.get();
  const bool is_logged = log != nullptr && (!log->is_broken() || behind() > 0);
  const bool shows_now = behind() == 0 && (!is_logged || !sink_.is_full());
  if (is_logged) log->append(bytes);
  if (!shows_now) {
    if (!catches_up_) catch_up();
    return;
  }
  if (is_logged) shown_ += bytes.size();
  splitter_.feed(bytes, lines_);
  show();
}

void RankOutput::catch_up() {
  catches_up_ = true;
  if (behind() == 0) {
    catches_up_ = false;
    if (ended_) {
      end_shown();
    } else if (std::exchange(reads_then_, false)) {
      read_some();
    }
  } else if (sink_.is_full()) {
    sink_.when_room([this] { catch_up(); });
  } else {
    options_.log->read(shown_, [this](const std::string& bytes) { show_logged(bytes); });
  }
}

void RankOutput::show_logged(const std::string& bytes) {
  if (bytes.empty()) {
    splitter_.feed(fmt::format("[dlrun: {} bytes could not be read back from the log]\n", behind()),
                   lines_);
    shown_ = options_.log->size();
  } else {
    shown_ += bytes.size();
    splitter_.feed(bytes, lines_);
  }
  show();
  boost::asio::post(pipe_.get_executor(), [this] { catch_up(); });  // after the others' turn
}

// Passes on the lines that are ready, and with them, in one go, the status that they leave.
void RankOutput::show() {
  // More than any terminal is wide; a line may be many MiB by now.
  constexpr std::size_t kMostShown = 4096;
  std::string_view rest;
  if (options_.shows_status && sink_.is_terminal()) {
    rest = splitter_.visible_rest().substr(0, kMostShown);
  }
  std::string status;
  if (!rest.empty()) status.append(splitter_.prefix()).append(rest);
  // The other stream of this rank may own the status now; only its owner takes it away.
  const bool speaks = !rest.empty() || status_is_mine_;
  status_is_mine_ = !rest.empty();
  sink_.write(lines_, speaks ? std::optional<std::string_view>(status) : std::nullopt);
  lines_.clear();
}

bool RankOutput::is_standing_still() {
  if (held_by_ == HeldBy::kNothing) return false;
  // Only the writing end can be asked, and the pipe can be opened at that end, too.
  const UniqueFd writer(
      ::open(path_of_descriptor(pipe_.native_handle()).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  pollfd writable{writer.get(), POLLOUT, 0};
  return writer && ::poll(&writable, 1, 0) == 0;
}

void RankOutput::take_what_is_there() {
  bool empty = false;
  // A pipe's worth twice: a writer that never stops has its turn later.
  for (std::size_t i = 0; i < 2 && !ended_ && !empty; ++i) {
    if (!read_once(empty)) return;
  }
}

void RankOutput::end() {
  if (ended_) return;
  ended_ = true;
  held_by_ = HeldBy::kNothing;
  pipe_.close();
  if (!catches_up_) end_shown();
}

void RankOutput::end_shown() {
  if (shown_to_its_end_) return;
  shown_to_its_end_ = true;
  splitter_.finish(lines_);
  show();
}

void RankOutput::drain() {
  if (ended_) return;
  bool empty = false;
  while (read_once(empty)) {
  }
  end();
}

}  // namespace dl::launcher
