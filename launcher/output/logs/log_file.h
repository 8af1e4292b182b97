// LogFile: one file under --log-dir. append() returns at once, and a DiskThread writes the bytes in
// order. They can be read back, so a stream that is shown late need not stay in memory.
//
// Memory has a bound if the writer stops while is_full(). One thread; DiskThread must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/system/unique_fd.h"
#include "launcher/output/logs/disk_thread.h"

namespace dl::launcher {

class LogFile {
 public:
  // `on_broken` is called once if bytes could not be written; error() tells why. From then on all
  // bytes stay in memory, so that they can still be read back.
  LogFile(DiskThread& disk, UniqueFd file, std::function<void()> on_broken);

  void append(std::string_view bytes);
  bool is_full() const { return waiting_.size() > kMostWaiting; }
  // Calls back once, when there is room or the file is broken.
  void when_room(std::function<void()> ready);

  std::uint64_t size() const { return size_; }
  // Passes the bytes from `from` on to `take`: at least one and at most kMostRead, or none if they
  // could not be read. `from` must be below size(). One call at a time.
  void read(std::uint64_t from, std::function<void(std::string)> take);

  bool is_broken() const { return !error_.empty(); }
  // Why the file is incomplete; written() is the first missing byte.
  const std::string& error() const { return error_; }
  std::uint64_t written() const { return written_; }
  // Bytes that the disk has not taken yet.
  std::uint64_t unwritten() const { return size_ - written_; }

 private:
  static constexpr std::size_t kMostWaiting = std::size_t{256} << 10;
  static constexpr std::size_t kMostRead = std::size_t{64} << 10;

  void write_some();
  void on_written(std::size_t bytes, int error);

  DiskThread& disk_;
  std::shared_ptr<const UniqueFd> file_;        // shared with the thread's work
  std::shared_ptr<const std::string> writing_;  // what the thread writes now, from written_ on
  std::string waiting_;                         // what follows it
  std::uint64_t written_ = 0;
  std::uint64_t size_ = 0;
  std::string error_;
  std::function<void()> on_broken_;
  std::function<void()> when_room_;
};

}  // namespace dl::launcher
