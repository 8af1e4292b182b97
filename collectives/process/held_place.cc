#include "collectives/process/held_place.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "collectives/call/descriptor.h"
#include "core/base/system/process/process_stat.h"

namespace dl::collectives {
namespace {

constexpr int kBacklog = 512;

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// A name of fixed length from a text of any length.
Address address_of(std::string_view place) {
  const std::string name = fmt::format("dlrun-place-{:016x}", hash_of_group(place, 0));
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UniqueFd local_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// The process that has called listen(). None if it is this one, another user's, in another pid
// namespace, or gone and survived by a child that it has forked.
std::optional<int> listening_process(const Address& address) {
  const UniqueFd fd = local_socket();
  if (!fd || ::connect(fd.get(), address.get(), address.size) != 0) return std::nullopt;
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return std::nullopt;
  if (who.pid <= 0 || who.pid == ::getpid() || who.uid != ::geteuid()) return std::nullopt;
  if (!read_stat(fmt::format("/proc/{}", who.pid)).is_alive()) return std::nullopt;
  return who.pid;
}

}  // namespace

HeldPlace::HeldPlace(std::string_view place) {
  const Address address = address_of(place);
  UniqueFd fd = local_socket();
  if (fd && ::bind(fd.get(), address.get(), address.size) == 0) {
    if (::listen(fd.get(), kBacklog) == 0) listener_ = std::move(fd);
  } else {
    holder_ = listening_process(address);
  }
}

HeldPlace::~HeldPlace() {
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
}

}  // namespace dl::collectives
