// RankStream: one output stream of one rank, on the rank's node. It reads the pipe, writes the log
// file, if there is one, and sends frames to the frontend.
//
// Without a log file, the pipe is not read while the frontend has no room, and the rank stands
// still. With a log file, the rank continues: bytes that the frontend cannot take yet are read back
// from the file later. So nothing is lost, and memory has a bound.
//
// One thread. FrameTaker, DiskThread and io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/system/unique_fd.h"
#include "launcher/output/frame.h"
#include "launcher/output/logs/log_file.h"

namespace dl::launcher {

class RankStream {
 public:
  // `pipe`: the reading end. `log`: null: no log.
  RankStream(boost::asio::io_context& io, StreamId id, UniqueFd pipe, FrameTaker& frontend,
             std::unique_ptr<LogFile> log);
  RankStream(const RankStream&) = delete;
  RankStream& operator=(const RankStream&) = delete;

  const StreamId& id() const { return id_; }

  // Reads what is in the pipe now, so that tail() is up to date. The stream continues.
  void take_what_is_there();

  // Takes what is in the pipe now, even if the frontend has no room, and ends the stream. To be
  // called when every writer is dead.
  void drain();

  // The last lines, for the report; at most kTail bytes.
  const std::string& tail() const { return tail_; }
  const LogFile* log() const { return log_.get(); }

  // The stream has ended, and the frontend has all of it.
  bool is_sent() const { return is_sent_; }
  // The stream has ended, and no callback refers to it: it may be destroyed.
  bool is_settled() const;
  // Bytes that are read and logged, and not sent yet.
  std::uint64_t behind() const { return log_ ? log_->size() - sent_ : 0; }

  // Why the pipe is not read at the moment.
  enum class HeldBy : std::uint8_t { kNothing, kReader, kDisk };
  HeldBy held_by() const { return held_by_; }
  // The pipe is not read and is full: the rank waits in a write, or will at its next one.
  bool is_standing_still() const;

 private:
  // Room for a Python traceback with the C++ frames that torch adds.
  static constexpr std::size_t kTail = std::size_t{16} * 1024;

  void wait_for_bytes();
  void read_some();
  bool may_read();
  // Returns false at the end of the stream, and if the pipe is empty (then it sets `empty`).
  bool read_once(bool& empty);
  void take(std::string_view bytes);
  void catch_up();
  void when_front_has_room(void (RankStream::*then)());
  void send_logged(const std::string& bytes);
  void send(std::string_view bytes, bool is_last = false);
  void end();
  void end_sent();

  StreamId id_;
  mutable boost::asio::posix::stream_descriptor pipe_;
  FrameTaker& frontend_;
  std::unique_ptr<LogFile> log_;
  std::string tail_;
  std::uint64_t sent_ = 0;  // bytes of the log file
  HeldBy held_by_ = HeldBy::kNothing;
  bool catches_up_ = false;
  bool reads_then_ = false;  // reads the pipe after it has caught up
  int callbacks_ = 0;        // callbacks that the frontend holds
  bool ended_ = false;
  bool is_sent_ = false;
};

}  // namespace dl::launcher
