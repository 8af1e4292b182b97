#include "rendezvous/net/handshake/proving.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "core/base/error.h"

namespace dl::rendezvous {
namespace {

enum class Progress : std::uint8_t { kDone, kAgain, kLost };

Progress send_some(int fd, Handshake& handshake, int& error) {
  while (!handshake.output().empty()) {
    const std::span<const std::uint8_t> rest = handshake.output();
    const ssize_t n = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      handshake.sent(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      return Progress::kAgain;
    } else if (errno != EINTR) {
      error = errno;
      return Progress::kLost;
    }
  }
  return Progress::kDone;
}

Progress receive_some(int fd, Handshake& handshake, int& error) {
  std::array<std::uint8_t, 1024> buffer;
  while (handshake.wanted() > 0) {
    const ssize_t n = ::recv(fd, buffer.data(), std::min(handshake.wanted(), buffer.size()), 0);
    if (n > 0) {
      handshake.feed(std::span(buffer).first(static_cast<std::size_t>(n)));
      // Send what the peer waits for before reading more.
      if (!handshake.output().empty()) return Progress::kDone;
    } else if (n == 0) {
      error = ECONNRESET;
      return Progress::kLost;
    } else if (errno == EAGAIN) {
      return Progress::kAgain;
    } else if (errno != EINTR) {
      error = errno;
      return Progress::kLost;
    }
  }
  return Progress::kDone;
}

}  // namespace

Proving::Proving(UniqueFd fd, const JobKey& key, const Hello& hello)
    : fd_(std::move(fd)), handshake_(key, hello) {}

short Proving::lose(int error) {
  may_retry_ = true;
  reason_ = fmt::format("the connection was lost during the handshake ({})", std::strerror(error));
  return 0;
}

short Proving::go_on() {
  for (;;) {
    int error = 0;
    Progress progress = send_some(fd_.get(), handshake_, error);
    short events = POLLOUT;
    // Read a refusal that may have arrived before the connection broke: it says more than the
    // break.
    if (progress != Progress::kAgain && handshake_.state() == Handshake::State::kRunning) {
      progress = receive_some(fd_.get(), handshake_, error);
      events = POLLIN;
    }
    if (handshake_.state() == Handshake::State::kFailed) {
      if (!handshake_.output().empty()) send_some(fd_.get(), handshake_, error);
      may_retry_ = handshake_.refusal() == Refusal::kBusy;
      kind_ = handshake_.error_kind();
      reason_ = handshake_.reason();
      return 0;
    }
    if (progress == Progress::kLost) return lose(error);
    if (is_proved()) return 0;
    if (progress == Progress::kAgain) return events;
  }
}

}  // namespace dl::rendezvous
