// ChannelClient: dlrun's end of a channel to its warden or to a supervisor, in the event loop.
// Messages go out in order without blocking, and each received message is passed to a callback.
//
// One thread. The io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>

#include "core/base/deadline.h"
#include "launcher/process/supervisor_channel.h"

namespace dl::launcher {

class ChannelClient {
 public:
  // `on_closed` is called when the process at the other end is gone. No callback may destroy this
  // object.
  ChannelClient(boost::asio::io_context& io, UniqueFd channel,
                std::function<void(Message)> on_message, std::function<void()> on_closed);

  void send(Message message);
  // Returns once everything is sent, or at the deadline. To be called before dlrun stops itself.
  void flush(rendezvous::Deadline deadline);
  // Number of messages that wait to be sent. While the supervisor executes a program, it reads
  // none.
  std::size_t waiting() const { return waiting_.size(); }
  // Calls back once, when the first waiting message has been sent.
  void when_sent(std::function<void()> ready) { when_sent_ = std::move(ready); }

 private:
  void send_some();
  void wait_for_message();
  void receive_some();

  boost::asio::posix::stream_descriptor channel_;
  std::function<void(Message)> on_message_;
  std::function<void()> on_closed_;
  std::deque<Message> waiting_;
  std::function<void()> when_sent_;
};

}  // namespace dl::launcher
