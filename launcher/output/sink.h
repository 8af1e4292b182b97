// Sink: dlrun's own stdout or stderr, shared by all ranks. Writes come out in order and in one
// piece, and a slow reader delays only the ranks that write.
//
// write() queues and never blocks. If ranks write faster than the reader reads, is_full() is true
// and their streams wait for room. On a terminal, a Sink also keeps one status line below
// everything else: rank 0's unfinished line. Elsewhere, a writer may leave its last line open; text
// of another writer then ends that line first.
//
// A DiskThread writes to a file, so that a disk that hangs does not block the event loop.
//
// The inherited descriptor is never made non-blocking, because that would also change the shell's.
// Pipes and terminals are opened anew. A descriptor that cannot be opened anew is watched through
// an epoll instance of its own, because Boost.Asio makes descriptors that it watches non-blocking.
//
// One thread. Boost.Asio's io_context and the DiskThread must outlive the Sink.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/output/logs/disk_thread.h"

namespace dl::launcher {

class Sink {
 public:
  using Clock = std::chrono::steady_clock;

  // The caller keeps `fd` open. `on_broken` is called once, with an errno value, when nothing can
  // be written any more; EPIPE: the reader is gone.
  Sink(boost::asio::io_context& io, DiskThread& disk, int fd, std::function<void(int)> on_broken);

  // `status`: the terminal's last line from now on ("": none); nullopt leaves it unchanged. Only a
  // terminal has one.
  void write(std::string_view lines, std::optional<std::string_view> status = std::nullopt);
  // Text whose last line may be without its end: `writer` continues it with its next text.
  void write_part(std::string_view text, const void* writer);
  // True if the last line is without its end, and `writer` may continue it.
  bool is_open_for(const void* writer) const { return writer_ == writer && writer != nullptr; }
  bool is_full() const { return unwritten() > kMostQueued; }
  std::size_t unwritten() const { return queued_.size() + writing_.size() - at_; }
  // Since when queued bytes could not be written; nullopt: there are none, or they are being
  // written.
  std::optional<Clock::time_point> waits_since() const { return waits_since_; }
  bool is_broken() const { return broken_; }
  // Calls back once, when there is room.
  void when_room(std::function<void()> ready) { waiting_.push_back(std::move(ready)); }

  bool is_terminal() const { return terminal_; }
  bool is_file() const { return way_ == Way::kFile; }
  // Of the terminal; kUsualColumns if it does not say. 0: this is none.
  int columns() const;

 private:
  enum class Way : std::uint8_t { kDirect, kFile, kNonBlocking, kSocket, kSmallPieces };
  static constexpr std::size_t kMostQueued = std::size_t{1} << 20;
  static constexpr int kUsualColumns = 80;

  void write_some();
  void write_to_file();
  void on_progress(std::size_t bytes);
  bool refill();
  void wait_until_writable();
  long write_once();
  void fail(int error);
  void wake();

  boost::asio::posix::stream_descriptor
      watched_;  // opened anew, or an epoll instance that watches fd_
  DiskThread& disk_;
  int fd_;
  Way way_ = Way::kDirect;
  bool terminal_ = false;
  bool broken_ = false;
  bool waits_ = false;
  std::optional<Clock::time_point> waits_since_;
  std::function<void(int)> on_broken_;
  const void* writer_ = nullptr;  // of an open line at the end of queued_, or of all before
  std::string queued_;            // text of which nothing was written yet
  std::string writing_;           // what is being written,
  std::size_t at_ = 0;            // from here on
  std::string status_;
  std::string status_shown_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace dl::launcher
