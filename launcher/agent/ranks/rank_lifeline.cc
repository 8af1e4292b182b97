#include "launcher/agent/ranks/rank_lifeline.h"

#include <sys/socket.h>

#include <string_view>
#include <utility>

namespace dl::launcher {

RankLifeline::RankLifeline(boost::asio::io_context& io, UniqueFd end,
                           std::function<void(const rendezvous::Waiting&)> on_waiting)
    : end_(io, end.release()), on_waiting_(std::move(on_waiting)) {
  wait();
}

void RankLifeline::wait() {
  end_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                  [this](const boost::system::error_code& error) {
                    if (error || closed_) return;
                    on_readable();
                  });
}

void RankLifeline::on_readable() {
  char first;
  // Zero: the program has closed its end.
  const bool is_open = ::recv(end_.native_handle(), &first, 1, MSG_PEEK) != 0;
  read();
  if (is_open) wait();
}

void RankLifeline::read() {
  char packet[64 * 1024];
  ssize_t n;
  while ((n = ::recv(end_.native_handle(), packet, sizeof packet, MSG_DONTWAIT)) > 0) {
    const std::string_view said(packet, static_cast<std::size_t>(n));
    if (auto failure = rendezvous::decode_peer_failure(said)) {
      failures_.add(std::move(*failure));
    } else if (const auto waiting = rendezvous::decode_waiting(said)) {
      on_waiting_(*waiting);
    } else if (rendezvous::is_renewal(said)) {
      failures_.renewed();
    } else if (rendezvous::is_recovery(said)) {
      failures_.recovered();
    }
  }
}

void RankLifeline::close() {
  read();
  closed_ = true;
  end_.close();
}

}  // namespace dl::launcher
