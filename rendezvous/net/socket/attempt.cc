#include "rendezvous/net/socket/attempt.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "core/base/system/machine/limits.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

// If several addresses are left, one that does not answer may use only this much of the deadline.
constexpr auto kShareOfOneAddress = 2s;

// Waits until a non-blocking connect() has ended. Returns 0, or an errno value.
int wait_connected(int fd, Deadline deadline, int hangup_fd) {
  while (!poll_one(fd, POLLOUT, deadline, hangup_fd)) {
    if (deadline.has_passed()) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

struct Attempt {
  UniqueFd fd;
  int error = 0;
};

Attempt connect_once(const Address& address, Deadline deadline, int hangup_fd) {
  Attempt attempt;
  attempt.fd.reset(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!attempt.fd) {
    attempt.error = errno;
    return attempt;
  }
  const int fd = attempt.fd.get();
  if (::connect(fd, address.data(), address.size()) != 0) {
    attempt.error =
        errno == EINPROGRESS || errno == EINTR ? wait_connected(fd, deadline, hangup_fd) : errno;
  }
  // A connect() to a free port in this host's ephemeral range can connect to itself (simultaneous
  // open); in this case no server listens.
  if (attempt.error == 0 && local_address(fd) == peer_address(fd)) attempt.error = ECONNREFUSED;
  return attempt;
}

std::string text_of(int error, const Address& address) {
  // 127.0.0.1 is unreachable in a network namespace whose loopback interface is down.
  const bool is_down = error == ENETUNREACH && address.is_loopback();
  return fmt::format("{} ({}){}", system_error_text(error), address.text(),
                     is_down ? "; the loopback interface is down, `ip link set lo up`" : "");
}

}  // namespace

UniqueFd try_addresses(const Endpoint& endpoint, Deadline deadline, int hangup_fd,
                       Obstacle& obstacle) {
  std::vector<Address> addresses;
  try {
    addresses = resolve(endpoint, deadline);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kTimeout && !obstacle.text.empty()) return {};
    obstacle = {error.kind(), error.what(), error.kind() == ErrorKind::kNotFound};
    return {};
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const bool last = i + 1 == addresses.size();
    const Deadline share =
        last ? deadline : Deadline::earlier(deadline, Deadline::after(kShareOfOneAddress));
    Attempt attempt = connect_once(addresses[i], share, hangup_fd);
    if (attempt.error == 0) return std::move(attempt.fd);
    // The first address is the preferred one, so report its refusal.
    const bool is_cut_short = deadline.has_passed() && !obstacle.text.empty();
    if (i == 0 && !is_cut_short) {
      obstacle = {ErrorKind::kConnection, text_of(attempt.error, addresses[i]),
                  (attempt.error == ENETUNREACH && addresses[i].is_loopback()) ||
                      is_out_of_files(attempt.error)};
    }
  }
  return {};
}

bool poll_one(int fd, short events, Deadline deadline, int hangup_fd) {
  std::array<pollfd, 2> entries{
      {{.fd = fd, .events = events, .revents = 0}, {.fd = hangup_fd, .events = 0, .revents = 0}}};
  const int n = ::poll(entries.data(), entries.size(), deadline.poll_timeout());
  if (n < 0 && errno != EINTR) throw_errno(errno, "poll");
  if (n <= 0) return false;
  if (entries[1].revents != 0)
    throw_error(ErrorKind::kAborted, "connect: its caller no longer waits");
  return true;
}

}  // namespace dl::rendezvous
