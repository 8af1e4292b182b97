#include "launcher/nodes/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

constexpr int kBacklog = 1024;  // all ranks come at once

bool bind_and_listen(int fd, const sockaddr* address, socklen_t size) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a job just before this one
  return ::bind(fd, address, size) == 0 && ::listen(fd, kBacklog) == 0;
}

}  // namespace

Listening listen_on_loopback() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) throw_errno(errno, "socket for the rendezvous");
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  if (!bind_and_listen(fd.get(), reinterpret_cast<sockaddr*>(&here), size) ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &size) != 0) {
    throw_errno(errno, "listening on 127.0.0.1 for the rendezvous");
  }
  return {std::move(fd), fmt::format("127.0.0.1:{}", ntohs(here.sin_port))};
}

Listening listen_everywhere(const JobPlan& job, const std::string& host, Listens listens) {
  const std::string& endpoint = job.rdzv_endpoint;
  const int port = std::atoi(endpoint.c_str() + endpoint.rfind(':') + 1);  // checked by make_plan()
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool listening = false;
  if (fd) {
    const int off = 0;
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    listening = bind_and_listen(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any);
  }
  if (!listening && errno != EADDRINUSE) {  // a host without IPv6
    fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) throw_errno(errno, "socket for the rendezvous");
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<std::uint16_t>(port));
    listening = bind_and_listen(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any);
  }
  if (!listening && errno == EADDRINUSE && listens == Listens::kIfFree) return {};
  DL_CHECK(listening || errno != EADDRINUSE || job.is_endpoint_given, kIo,
           "--master-port {}: the port is taken on {}; give another, the same on all nodes", port,
           host);
  DL_CHECK(
      listening || errno != EADDRINUSE, kIo,
      "--rdzv-endpoint {}: port {} is taken on {}; give another in --rdzv-endpoint HOST:PORT, the "
      "same on all nodes",
      endpoint, port, host);
  if (!listening) throw_errno(errno, fmt::format("--rdzv-endpoint {}: listening", endpoint));
  return {std::move(fd), endpoint};
}

}  // namespace dl::launcher
