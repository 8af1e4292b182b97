// Channel: one end of the connection between a frontend and a remote agent, in the event loop.
// Values go out in order without blocking, and each received value is passed to a callback.
//
// One thread; the io_context must outlive it. No callback may destroy the object.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"
#include "launcher/remote/frames/messages.h"

namespace dl::launcher::remote {

class Channel {
 public:
  struct Events {
    std::function<void(Value)> on_value;
    // Called once, and last: the other side has closed its end (`wrong` is empty), or sent bytes
    // that are no frame.
    std::function<void(const std::string& wrong)> on_closed;
  };

  // `in` and `out` become non-blocking. `decoder` may hold bytes that were read before.
  Channel(boost::asio::io_context& io, UniqueFd in, UniqueFd out, Decoder decoder, Events events);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void send(const Value& value);
  // Number of bytes that the other side has not taken.
  std::size_t unsent() const { return unsent_.size() - at_; }
  // The end of what came in place of the other side's first word.
  std::string_view noise() const { return decoder_.noise(); }
  // Sends no more. The other side gets everything sent so far, then the end.
  void close();
  // Reads what has come, and calls on_closed. To be called when the other side has ended: another
  // process may hold its end open.
  void end_reading();
  // Returns true once everything is sent, or false at the deadline: then the rest is lost.
  bool flush(rendezvous::Deadline deadline);

 private:
  void write_some();
  void wait_to_write();
  void wait_to_read();
  bool read_some(int most_reads);
  bool hand_out();
  void end_here();
  void end(const std::string& wrong);

  boost::asio::posix::stream_descriptor in_;
  boost::asio::posix::stream_descriptor out_;
  Decoder decoder_;
  Events events_;
  std::string unsent_;
  std::size_t at_ = 0;
  bool waits_ = false;
  bool closing_ = false;
  bool ended_ = false;
};

}  // namespace dl::launcher::remote
