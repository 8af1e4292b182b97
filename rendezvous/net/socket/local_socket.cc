#include "rendezvous/net/socket/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/base/error.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 512;
constexpr std::chrono::milliseconds kPause{2};

}  // namespace

Listener listen_local() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw_errno(errno, "make a local socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An address with the family alone asks the kernel for a free abstract name (unix(7), autobind).
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    throw_errno(errno, "listen on a local socket");
  }
  return Listener::from_fd(std::move(fd));
}

std::string local_name(int fd) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw_errno(errno, "find a local socket's name");
  }
  constexpr std::size_t kBegin = offsetof(sockaddr_un, sun_path) + 1;
  DL_CHECK(size > kBegin, kInternal, "the local socket has no abstract name");
  return {address.sun_path + 1, size - kBegin};
}

UniqueFd connect_local(std::string_view name, Deadline deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  DL_CHECK(!name.empty() && name.size() < sizeof address.sun_path, kInvalidArgument,
           "a local socket's name has 1 to {} bytes, got {}", sizeof address.sun_path - 1,
           name.size());
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  for (;;) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) throw_errno(errno, "make a local socket");
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
    const int error = errno;
    if (error == EINTR) continue;
    // EAGAIN: the listener's queue is full for the moment.
    DL_CHECK(error == EAGAIN, kConnection,
             "connect to the local socket @{}: {}; are both processes in one network namespace?",
             name, std::strerror(error));
    DL_CHECK(!deadline.has_passed(), kTimeout,
             "connect to the local socket @{}: its queue was full until the deadline", name);
    ::poll(nullptr, 0, Deadline::earlier(deadline, Deadline::after(kPause)).poll_timeout());
  }
}

void check_same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    throw_errno(errno, "ask who is at the other end of a local socket");
  }
  DL_CHECK(peer.uid == ::geteuid(), kAuthentication,
           "the process at the other end (pid {}) runs as user {}, this one as user {}", peer.pid,
           peer.uid, ::geteuid());
}

bool send_passing(int fd, std::span<const std::byte> bytes, int passed) noexcept {
  while (!bytes.empty()) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (passed >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &passed, sizeof passed);
    }
    const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    passed = -1;
  }
  return true;
}

Received receive_passing(int fd, std::span<std::byte> bytes) noexcept {
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  Received received;
  ssize_t n = 0;
  do {
    n = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) {
    received.ended = n == 0 || errno != EAGAIN;
    return received;
  }
  received.bytes = static_cast<std::size_t>(n);
  received.lost_passed = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(header), sizeof passed);
    received.passed.reset(passed);
  }
  return received;
}

}  // namespace dl::rendezvous
