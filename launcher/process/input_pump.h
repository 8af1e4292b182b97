// dlrun's standard input on its way to somewhere else, as a rank 0 on another host: read as far as
// there is room for it.
//
// The descriptor stays blocking, as a terminal is shared with the shell; and a dlrun in the
// background does not read from its terminal. One thread; the io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/unique_fd.h"

namespace dl::launcher {

class InputPump {
 public:
  // `on_read`: what was read; empty at the end, after which nothing comes.
  InputPump(boost::asio::io_context& io, UniqueFd input,
            std::function<void(std::string bytes)> on_read);

  // Room for so many bytes more. Nothing is read before the first call.
  void give(std::uint32_t bytes);
  // dlrun may be in the foreground again.
  void resume() { pump(); }

 private:
  void pump();
  void read_some();

  boost::asio::io_context& io_;
  UniqueFd input_;
  // Is readable when the input is: the event loop would make the input itself non-blocking.
  boost::asio::posix::stream_descriptor ready_;
  bool is_always_ready_ = false;  // a file
  std::function<void(std::string)> on_read_;
  std::uint32_t room_ = 0;
  bool waits_ = false;
  bool ended_ = false;
};

}  // namespace dl::launcher
