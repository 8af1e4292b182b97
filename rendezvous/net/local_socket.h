// Unix sockets between processes of one host: a name that needs no file, and descriptors passed
// along.
//
// The names are abstract: the kernel picks them, they vanish with the listener, and they are seen
// only within one network namespace. Whoever may connect is checked twice: by the handshake, as
// everywhere, and by the user id that the kernel vouches for. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/unique_fd.h"
#include "rendezvous/net/socket.h"

namespace dl::rendezvous {

// A listener under a new abstract name, non-blocking and close-on-exec. Throws kIo.
Listener listen_local();
// The name as text, without the zero byte that abstract names begin with. Throws kIo.
std::string local_name(int fd);
// A connected socket, non-blocking and close-on-exec. Throws kConnection "connect to the local
// socket @00a1f: Connection refused; ...", kTimeout.
UniqueFd connect_local(std::string_view name, Deadline deadline);

// Throws kAuthentication where the process at the other end runs as another user.
void check_same_user(int fd);

// Sends all bytes, and `passed` (>= 0) with the first of them. False where the peer is gone or does
// not take them now: what is sent here is small enough for an empty socket's buffer.
bool send_passing(int fd, std::span<const std::byte> bytes, int passed = -1) noexcept;

struct Received {
  std::size_t bytes = 0;  // 0 with `ended`: the peer has closed; 0 without: nothing is there now
  bool ended = false;
  UniqueFd passed{};
  bool lost_passed = false;  // one came, and this process could not take it: it has too many open
};
// Takes what is there, at most the span's size, and a descriptor that came with it.
Received receive_passing(int fd, std::span<std::byte> bytes) noexcept;

}  // namespace dl::rendezvous
