#include "rendezvous/net/connect.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFirstPause = 10ms;
constexpr std::chrono::milliseconds kLongestPause = 500ms;

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
      // What the peer waits for goes out before more is read.
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

struct Attempt {
  UniqueFd fd;
  Hello peer;
  bool may_retry = false;
  ErrorKind kind = ErrorKind::kConnection;
  std::string reason;
};

void fill_failure(Attempt& attempt, const Handshake& handshake) {
  attempt.may_retry = handshake.refusal() == Refusal::kBusy;
  attempt.kind = handshake.error_kind();
  attempt.reason = handshake.reason();
}

Attempt prove_once(UniqueFd fd, const Hello& hello, const JobKey& key, Deadline deadline,
                   int hangup_fd, const std::string& what, Patience& patience) {
  HandshakeClient handshake(key, hello);
  Attempt attempt;
  for (;;) {
    int error = 0;
    Progress progress = send_some(fd.get(), handshake, error);
    short events = POLLOUT;
    // A refusal that arrived before the connection broke says more than the break.
    if (progress != Progress::kAgain && handshake.state() == Handshake::State::kRunning) {
      progress = receive_some(fd.get(), handshake, error);
      events = POLLIN;
    }
    if (handshake.state() == Handshake::State::kFailed) {
      if (!handshake.output().empty()) send_some(fd.get(), handshake, error);
      fill_failure(attempt, handshake);
      return attempt;
    }
    if (progress == Progress::kLost) {
      attempt.may_retry = true;
      attempt.reason =
          fmt::format("the connection was lost during the handshake ({})", std::strerror(error));
      return attempt;
    }
    if (handshake.state() == Handshake::State::kProved) {
      attempt.fd = std::move(fd);
      attempt.peer = handshake.peer();
      return attempt;
    }
    if (progress == Progress::kDone) continue;
    if (deadline.has_passed()) {
      attempt.kind = ErrorKind::kTimeout;
      attempt.reason = "it took the connection and did not answer by the deadline";
      return attempt;
    }
    if (patience.should_speak()) {
      log::warning("{}: connected, and no answer for {} s", what, patience.waited().count());
    }
    poll_one(fd.get(), events, patience.until(deadline), hangup_fd);
  }
}

}  // namespace

Connection connect_and_prove(const Endpoint& endpoint, const Hello& hello, const JobKey& key,
                             Deadline deadline, const ProveOptions& options) {
  const std::string what = fmt::format("connect to {} for '{}'", endpoint.text(), hello.purpose);
  Patience patience;
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    UniqueFd fd = connect_to(endpoint, deadline,
                             {.retry = options.retry,
                              .what_for = fmt::format("'{}'", hello.purpose),
                              .hangup_fd = options.hangup_fd});
    const std::string address = peer_address(fd.get()).text();
    Attempt attempt =
        prove_once(std::move(fd), hello, key, deadline, options.hangup_fd, what, patience);
    if (attempt.fd) return {std::move(attempt.fd), std::move(attempt.peer), address};
    if (!attempt.may_retry || !options.retry || deadline.has_passed()) {
      throw_error(attempt.may_retry && deadline.has_passed() ? ErrorKind::kTimeout : attempt.kind,
                  "{}: {}", what, attempt.reason);
    }
    if (patience.should_speak()) {
      log::warning("{}: still trying after {} s: {}", what, patience.waited().count(),
                   attempt.reason);
    }
    poll_one(-1, 0, Deadline::earlier(deadline, Deadline::after(pause)), options.hangup_fd);
    pause = std::min(pause * 2, kLongestPause);
  }
}

Connection prove(UniqueFd fd, const Hello& hello, const JobKey& key, Deadline deadline) {
  const std::string address = peer_address(fd.get()).text();
  const std::string what = fmt::format("connect to {} for '{}'", address, hello.purpose);
  Patience patience;
  Attempt attempt = prove_once(std::move(fd), hello, key, deadline, -1, what, patience);
  if (!attempt.fd) throw_error(attempt.kind, "{}: {}", what, attempt.reason);
  return {std::move(attempt.fd), std::move(attempt.peer), address};
}

}  // namespace dl::rendezvous
