// InputPump: reads dlrun's standard input for another place, for example rank 0 on another host, as
// far as that place has room.
//
// The descriptor stays blocking, because a terminal is shared with the shell. A dlrun in the
// background does not read from its terminal. One thread; the io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/system/unique_fd.h"

namespace dl::launcher {

class InputPump {
 public:
  // `on_read` gets the bytes; it gets an empty string at the end, and is not called again.
  InputPump(boost::asio::io_context& io, UniqueFd input,
            std::function<void(std::string bytes)> on_read);

  // Gives room for this many more bytes. Nothing is read before the first call.
  void give(std::uint32_t bytes);
  // To be called when dlrun may be in the foreground again.
  void resume() { pump(); }

 private:
  void pump();
  void read_some();

  boost::asio::io_context& io_;
  UniqueFd input_;
  // Readable when the input is. The event loop does not watch the input itself, because it would
  // make it non-blocking.
  boost::asio::posix::stream_descriptor ready_;
  bool is_always_ready_ = false;  // the input is a file
  std::function<void(std::string)> on_read_;
  std::uint32_t room_ = 0;
  bool waits_ = false;
  bool ended_ = false;
};

}  // namespace dl::launcher
