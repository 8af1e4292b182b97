#include "core/base/system/machine/namespaces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>

namespace dl {

std::string network_namespace() {
  std::array<char, 64> id{};
  const ssize_t size = ::readlink("/proc/self/ns/net", id.data(), id.size());
  return size > 0 ? std::string(id.data(), static_cast<std::size_t>(size)) : std::string();
}

std::string user_on_host() {
  const std::uint64_t user = ::geteuid();
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  while (map >> inside >> outside >> count) {
    if (user >= inside && user - inside < count) return std::to_string(outside + user - inside);
  }
  return std::to_string(user);
}

bool is_in_own_pid_namespace() noexcept {
  constexpr ino_t kOfHost = 0xEFFFFFFC;  // fixed in the kernel
  struct stat processes{};
  return ::stat("/proc/self/ns/pid", &processes) == 0 && processes.st_ino != kOfHost;
}

}  // namespace dl
