#include "launcher/process/supervisor/channel_client.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <utility>

namespace dl::launcher {

using boost::asio::posix::stream_descriptor;

ChannelClient::ChannelClient(boost::asio::io_context& io, UniqueFd channel,
                             std::function<void(Message)> on_message,
                             std::function<void()> on_closed)
    : channel_(io), on_message_(std::move(on_message)), on_closed_(std::move(on_closed)) {
  ::fcntl(channel.get(), F_SETFL, O_NONBLOCK);
  channel_.assign(channel.release());
  wait_for_message();
}

void ChannelClient::send(Message message) {
  waiting_.push_back(std::move(message));
  if (waiting_.size() == 1) send_some();
}

void ChannelClient::send_some() {
  while (!waiting_.empty()) {
    if (send_message(channel_.native_handle(), waiting_.front())) {
      waiting_.pop_front();
    } else if (errno == EAGAIN) {
      channel_.async_wait(stream_descriptor::wait_write,
                          [this](const boost::system::error_code& error) {
                            if (error) return;
                            send_some();
                            if (const auto sent = std::exchange(when_sent_, nullptr)) sent();
                          });
      return;
    } else {
      waiting_.clear();  // the other end is gone, which receive_some() sees
    }
  }
}

void ChannelClient::flush(rendezvous::Deadline deadline) {
  while (!waiting_.empty() && !deadline.has_passed()) {
    pollfd writable{channel_.native_handle(), POLLOUT, 0};
    ::poll(&writable, 1, deadline.poll_timeout());
    if (send_message(channel_.native_handle(), waiting_.front())) {
      waiting_.pop_front();
    } else if (errno != EAGAIN) {
      waiting_.clear();
    }
  }
}

void ChannelClient::wait_for_message() {
  channel_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (!error) receive_some();
  });
}

void ChannelClient::receive_some() {
  while (true) {
    Message message;
    switch (receive_message(channel_.native_handle(), message)) {
      case Received::kMessage:
        on_message_(std::move(message));
        continue;
      case Received::kNothing:
        wait_for_message();
        return;
      case Received::kClosed:
        on_closed_();
        return;
    }
  }
}

}  // namespace dl::launcher
