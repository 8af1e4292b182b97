// Alarm: a timer for one thing at a time: an alarm that is set anew forgets what it was set for.
//
// One thread; io_context must outlive it. A pending alarm must not outlive what its function uses.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace dl::launcher {

class Alarm {
 public:
  explicit Alarm(boost::asio::io_context& io) : timer_(io) {}

  void set(std::chrono::milliseconds time, std::function<void()> then) {
    timer_.expires_after(time);
    timer_.async_wait([then = std::move(then)](const boost::system::error_code& error) {
      if (!error) then();
    });
  }
  void cancel() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

}  // namespace dl::launcher
