#include "launcher/plan/machine/this_host.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/random_bits.h"
#include "core/base/system/unique_fd.h"

namespace dl::launcher {
namespace {

constexpr int kLowest = 15000;  // above the ports that services are registered on by habit

int first_ephemeral_port() {
  int first = 32768;  // Linux's default
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "re"), &std::fclose);
  if (file && std::fscanf(file.get(), "%d", &first) != 1) first = 32768;
  return first;
}

int obstacle_of(int family, std::uint16_t port) {
  const UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno == EAFNOSUPPORT ? 0 : errno;  // a family that is not there takes no port
  // As servers do: a connection of an earlier job that is still in TIME_WAIT is no obstacle.
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int bound;
  if (family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
  } else {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
  }
  // Two sockets with SO_REUSEADDR may be bound to one port; only one may listen.
  if (bound == 0) return ::listen(fd.get(), 1) == 0 ? 0 : errno;
  return errno == EADDRINUSE || errno == EACCES ? errno : 0;
}

}  // namespace

int port_obstacle(std::uint16_t port) {
  const int obstacle = obstacle_of(AF_INET, port);
  return obstacle != 0 ? obstacle : obstacle_of(AF_INET6, port);
}

std::uint16_t choose_port() {
  const int end = first_ephemeral_port();
  const int begin = end - kLowest > 1000 ? kLowest : std::max(1024, end - 1000);
  const auto room = static_cast<std::uint64_t>(std::max(1, end - begin));
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const auto port = static_cast<std::uint16_t>(begin + static_cast<int>(random_bits() % room));
    const int obstacle = port_obstacle(port);
    if (obstacle == 0) return port;
    if (is_resource_exhausted(obstacle)) throw_errno(obstacle, "a port for MASTER_PORT");
  }
  throw_error(ErrorKind::kIo, "no free port for MASTER_PORT between {} and {} in {} tries", begin,
              end, kTries);
}

}  // namespace dl::launcher
