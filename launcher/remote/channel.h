// One end of the connection between a front and a remote agent, in the event loop: values go out in
// order without blocking, and each that comes in is handed to a callback.
//
// One thread; the io_context must outlive it. Neither callback may destroy the object.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <string>

#include "core/base/deadline.h"
#include "core/base/unique_fd.h"
#include "launcher/remote/messages.h"

namespace dl::launcher::remote {

class Channel {
 public:
  struct Events {
    std::function<void(Value)> on_value;
    // Once: the other side has closed its end (empty text), or sent what is no frame. Nothing comes
    // any more.
    std::function<void(const std::string& wrong)> on_closed;
  };

  // `in` and `out` become non-blocking. `decoder` may hold bytes that were read before.
  Channel(boost::asio::io_context& io, UniqueFd in, UniqueFd out, Decoder decoder, Events events);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void send(const Value& value);
  // Bytes that the other side has not taken.
  std::size_t unsent() const { return unsent_.size() - at_; }
  // Sends no more; the other side sees the end after what has been sent.
  void close();
  // Returns once everything is sent, or at the deadline. False: the rest is lost.
  bool flush(Deadline deadline);

 private:
  void write_some();
  void wait_to_write();
  void wait_to_read();
  void read_some();
  bool hand_out();
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
