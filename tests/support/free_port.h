// A port on which a test's program can listen: below those that the kernel gives to connections, as
// one of these may be taken before the program comes to it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "core/base/system/unique_fd.h"

namespace dl::tests {

inline std::uint16_t free_port() {
  constexpr unsigned kFirst = 10000;
  constexpr unsigned kCount = 20000;
  static std::atomic<unsigned> next{static_cast<unsigned>(::getpid()) * 37};
  for (unsigned tries = 0; tries < kCount; ++tries) {
    const auto port = static_cast<std::uint16_t>(kFirst + next++ % kCount);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    address.sin_port = ::htons(port);
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return port;
    }
  }
  throw std::runtime_error("no port is free");
}

}  // namespace dl::tests
