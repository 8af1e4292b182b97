#include "launcher/torch_store/store_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "launcher/plan/machine/this_host.h"

namespace dl::launcher {
namespace {

using rendezvous::Address;

// Returns an empty descriptor and sets errno on failure. With SO_REUSEPORT, sockets of one user may
// share a port: the store's and the one that holds it.
UniqueFd socket_for(const Address& at) {
  UniqueFd fd(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return {};
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (at.family() == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  return fd;
}

// The socket does not listen: a rank of another node that comes early is refused, and tries again.
// It has no SO_REUSEADDR, so that no other socket can bind the port, even one that has it.
UniqueFd bound(const Address& at) {
  UniqueFd fd = socket_for(at);
  if (fd && ::bind(fd.get(), at.data(), at.size()) != 0) return {};
  return fd;
}

UniqueFd listening(const Address& at, int backlog) {
  UniqueFd fd = socket_for(at);
  if (!fd) return {};
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), at.data(), at.size()) != 0 || ::listen(fd.get(), backlog) != 0) return {};
  return fd;
}

Address numeric(const std::string& host, std::uint16_t port) {
  return rendezvous::resolve({host, port}, rendezvous::Deadline::never()).front();
}

}  // namespace

std::optional<StorePort> StorePort::hold(std::uint16_t port) {
  StorePort held;
  held.port_ = port;
  held.ipv4_ = bound(numeric("0.0.0.0", port));
  if (!held.ipv4_ && errno == EADDRINUSE) return std::nullopt;
  held.ipv6_ = bound(numeric("::", port));
  if (!held.ipv6_ && errno == EADDRINUSE) return std::nullopt;
  return held;
}

rendezvous::Listener StorePort::listen_at(const Address& address, int backlog) const {
  UniqueFd fd = listening(numeric(address.host(), port_), backlog);
  if (!fd) {
    throw_error(errno == EADDRNOTAVAIL ? ErrorKind::kNotFound : ErrorKind::kConnection,
                "listen on {}: {}", rendezvous::Endpoint{address.host(), port_}.text(),
                system_error_text(errno));
  }
  return rendezvous::Listener::from_fd(std::move(fd));
}

std::optional<StorePort> hold_store_port(const NodePlan& plan, int& port) {
  constexpr int kTries = 100;
  for (int i = 0;; ++i) {
    std::optional<StorePort> held = StorePort::hold(static_cast<std::uint16_t>(port));
    if (held || plan.job.master_port || i == kTries) return held;
    port = choose_port();
  }
}

}  // namespace dl::launcher
