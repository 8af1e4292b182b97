#include "rendezvous/net/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/log.h"
#include "rendezvous/net/patience.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

// A dead host is noticed after 10 s: by keepalive while nothing is under way (4 + 3 x 2 s), by the
// user timeout while something is.
constexpr int kKeepIdleSeconds = 4;
constexpr int kKeepIntervalSeconds = 2;
constexpr int kKeepCount = 3;
constexpr unsigned kUserTimeoutMs = 10'000;

constexpr auto kFirstPause = 5ms;
constexpr auto kLongestPause = 200ms;
// While another address is left to try, one that does not answer must not eat the whole deadline.
constexpr auto kShareOfOneAddress = 2s;

void set_option(int fd, int level, int name, int value, const char* what) {
  if (::setsockopt(fd, level, name, &value, sizeof value) != 0) throw_errno(errno, what);
}

template <typename Query>
Address query_address(int fd, Query query) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (query(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return {reinterpret_cast<const sockaddr*>(&storage), size};
}

// Waits until a non-blocking connect() has ended. 0, or an errno value.
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
  // A connect() to a free port of this host's ephemeral range can meet itself (simultaneous open);
  // that is nobody listening.
  if (attempt.error == 0 && local_address(fd) == peer_address(fd)) attempt.error = ECONNREFUSED;
  return attempt;
}

// Why the endpoint cannot be reached now.
struct Obstacle {
  ErrorKind kind = ErrorKind::kConnection;
  std::string text;
  bool is_for_good = false;
};

std::string text_of(int error, const Address& address) {
  // Nothing leads to 127.0.0.1 in a network namespace whose loopback nobody has switched on.
  const bool is_down = error == ENETUNREACH && address.is_loopback();
  return fmt::format("{} ({}){}", system_error_text(error), address.text(),
                     is_down ? "; the loopback interface is down, `ip link set lo up`" : "");
}

// An attempt that the deadline cuts short leaves what stood in the way before.
UniqueFd try_all(const Endpoint& endpoint, Deadline deadline, int hangup_fd, Obstacle& obstacle) {
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
    // The first address is the preferred one, and its refusal the one to be told about.
    const bool is_cut_short = deadline.has_passed() && !obstacle.text.empty();
    if (i == 0 && !is_cut_short) {
      obstacle = {ErrorKind::kConnection, text_of(attempt.error, addresses[i]),
                  (attempt.error == ENETUNREACH && addresses[i].is_loopback()) ||
                      is_out_of_files(attempt.error)};
    }
  }
  return {};
}

}  // namespace

UniqueFd connect_to(const Endpoint& endpoint, Deadline deadline, const ConnectOptions& options) {
  const std::string what = fmt::format("connect to {}{}{}", endpoint.text(),
                                       options.what_for.empty() ? "" : " for ", options.what_for);
  DL_CHECK(endpoint.port != 0, kInvalidArgument, "{}: port 0 is not a port to connect to", what);
  Patience patience;
  std::chrono::milliseconds pause = kFirstPause;
  Obstacle obstacle;
  for (;;) {
    if (UniqueFd fd = try_all(endpoint, deadline, options.hangup_fd, obstacle)) {
      tune_connection(fd.get());
      return fd;
    }
    if (!options.retry || obstacle.is_for_good) {
      const bool late = deadline.has_passed();
      throw_error(late ? ErrorKind::kTimeout : obstacle.kind, "{}: {}", what, obstacle.text);
    }
    if (patience.should_speak()) {
      log::warning("{}: still trying after {} s: {}", what, patience.waited().count(),
                   obstacle.text);
    }
    DL_CHECK(!deadline.has_passed(), kTimeout, "{}: gave up at the deadline: {}", what,
             obstacle.text);
    poll_one(-1, 0, Deadline::earlier(deadline, Deadline::after(pause)), options.hangup_fd);
    pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
  }
}

bool poll_one(int fd, short events, Deadline deadline, int hangup_fd) {
  std::array<pollfd, 2> entries{
      {{.fd = fd, .events = events, .revents = 0}, {.fd = hangup_fd, .events = 0, .revents = 0}}};
  const int n = ::poll(entries.data(), entries.size(), deadline.poll_timeout());
  if (n < 0 && errno != EINTR) throw_errno(errno, "poll");
  if (n <= 0) return false;
  if (entries[1].revents != 0)
    throw_error(ErrorKind::kAborted, "connect: nobody waits for it any more");
  return true;
}

void tune_connection(int fd) {
  // A local socket has no network below it, and ends when its peer does.
  if (local_address(fd).family() == AF_UNIX) return;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "set TCP_NODELAY");
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "set SO_KEEPALIVE");
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds, "set TCP_KEEPIDLE");
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds, "set TCP_KEEPINTVL");
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount, "set TCP_KEEPCNT");
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs, "set TCP_USER_TIMEOUT");
}

Address local_address(int fd) {
  return query_address(fd, ::getsockname);
}

Address peer_address(int fd) {
  return query_address(fd, ::getpeername);
}

Listener Listener::bind(const ListenOptions& options) {
  const bool everywhere = options.host.empty();
  const std::string where = Endpoint{everywhere ? "*" : options.host, options.port}.text();
  // One dual-stack socket serves both families; a kernel without IPv6 gets an IPv4 one.
  const std::vector<Address> candidates =
      everywhere ? std::vector<Address>{resolve({"::", options.port}, Deadline::never())[0],
                                        resolve({"0.0.0.0", options.port}, Deadline::never())[0]}
                 : resolve({options.host, options.port}, Deadline::after(10s));
  int error = 0;
  for (const Address& candidate : candidates) {
    UniqueFd fd(::socket(candidate.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) {
      error = errno;
      continue;
    }
    // Connections of an earlier run that linger in TIME_WAIT must not block the port.
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, "set SO_REUSEADDR");
    if (candidate.family() == AF_INET6) {
      set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, everywhere ? 0 : 1, "set IPV6_V6ONLY");
    }
    if (::bind(fd.get(), candidate.data(), candidate.size()) == 0 &&
        ::listen(fd.get(), options.backlog) == 0) {
      const Address address = local_address(fd.get());
      return {std::move(fd), address};
    }
    error = errno;
    if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) break;
  }
  throw_error(ErrorKind::kConnection, "listen on {}: {}{}", where, system_error_text(error),
              error == EADDRINUSE      ? "; another program has this port, choose another one"
              : error == EADDRNOTAVAIL ? "; no network interface of this host has that address"
                                       : "");
}

Listener Listener::from_fd(UniqueFd fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  const int status = ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size);
  DL_CHECK(status == 0 && listening != 0, kInvalidArgument,
           "descriptor {} is not a listening socket: {}", fd.get(),
           status == 0 ? "it does not listen" : std::strerror(errno));
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    throw_errno(errno, "prepare the listening descriptor");
  }
  const Address address = local_address(fd.get());
  return {std::move(fd), address};
}

std::optional<Listener::Accepted> Listener::accept() {
  for (;;) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    UniqueFd fd(::accept4(fd_.get(), reinterpret_cast<sockaddr*>(&storage), &size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) return Accepted{std::move(fd), Address(reinterpret_cast<sockaddr*>(&storage), size)};
    switch (errno) {
      case EAGAIN:
        return std::nullopt;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
      case EBADF:
      case EINVAL:
      case ENOTSOCK:
        throw_errno(errno, fmt::format("accept on {}", address_.text()));
      default:
        // EINTR, or an error of a connection that ended before it was taken (accept(2) lists a
        // dozen): the next one may be fine.
        continue;
    }
  }
}

}  // namespace dl::rendezvous
