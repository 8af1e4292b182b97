// Listening, and the options of every connection. This is a file of its own, because dlrun links it
// without socket.cc, which depends on the log.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

// A dead host is noticed after 10 s: on an idle connection by keepalive (4 + 3 x 2 s), and by
// TCP_USER_TIMEOUT while data is unacknowledged.
constexpr int kKeepIdleSeconds = 4;
constexpr int kKeepIntervalSeconds = 2;
constexpr int kKeepCount = 3;
constexpr unsigned kUserTimeoutMs = 10'000;

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

}  // namespace

void tune_connection(int fd) {
  // A local socket needs no keepalive: it ends when its peer does.
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
    // Otherwise connections of an earlier run in TIME_WAIT would block the port.
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
  throw_error(error == EADDRNOTAVAIL ? ErrorKind::kNotFound : ErrorKind::kConnection,
              "listen on {}: {}{}", where, system_error_text(error),
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
        // EINTR, or the connection ended before it was accepted (accept(2) lists the errors): try
        // the next one.
        continue;
    }
  }
}

}  // namespace dl::rendezvous
