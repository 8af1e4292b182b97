// Unix sockets between processes of one host: names that need no file, and passing of descriptors.
//
// The names are abstract: the kernel picks them, they vanish with the listener, and they are
// visible within one network namespace only. A client is checked twice: by the handshake, and by
// the user id that the kernel reports. Any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::rendezvous {

// A listener with a new abstract name, non-blocking and close-on-exec. Throws kIo.
Listener listen_local();
// The name as text, without the leading zero byte of abstract names. Throws kIo.
std::string local_name(int fd);
// A connected socket, non-blocking and close-on-exec. Throws kConnection "connect to the local
// socket @00a1f: Connection refused; ...", kTimeout.
UniqueFd connect_local(std::string_view name, Deadline deadline);

// Throws kAuthentication if the process at the other end runs as another user.
void check_same_user(int fd);

// Sends all bytes, and the descriptor `passed` (-1: none) with the first of them. Returns false if
// the peer is gone or does not take them now, so they must fit into an empty socket's buffer.
bool send_passing(int fd, std::span<const std::byte> bytes, int passed = -1) noexcept;

struct Received {
  std::size_t bytes = 0;  // 0 with `ended`: the peer has closed; 0 without: nothing has arrived
  bool ended = false;
  UniqueFd passed{};
  bool lost_passed = false;  // a descriptor came, but this process has too many open
};
// Receives what has arrived, at most the span's size, and a descriptor that came with it.
Received receive_passing(int fd, std::span<std::byte> bytes) noexcept;

}  // namespace dl::rendezvous
