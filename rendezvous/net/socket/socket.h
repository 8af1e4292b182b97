// TCP sockets: connecting with a deadline, and listening.
//
// Every descriptor made here is non-blocking and close-on-exec. Connected ones have TCP_NODELAY,
// keepalive and TCP_USER_TIMEOUT, so that a vanished host is noticed after about 10 s. A Listener
// owns its descriptor; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

struct ConnectOptions {
  // If no server listens yet, keep trying until the deadline, and log it after 5 s.
  bool retry = false;
  // What the connection is for, in texts: "connect to node1:29500 for the store: ...".
  std::string what_for{};
  // The reading end of a pipe, or -1. If the other end of the pipe is closed, the call throws
  // kAborted.
  int hangup_fd = -1;
  // True if the caller tries again after the deadline, and reports failures itself.
  bool is_turn = false;
};

// poll() for one descriptor (-1: none), until the deadline or a signal. Returns true if it has one
// of the events. Throws kAborted if `hangup_fd` (-1: none) has hung up.
bool poll_one(int fd, short events, Deadline deadline, int hangup_fd);

// Returns a connected socket. Tries the endpoint's addresses in order. Throws kConnection "connect
// to node1:29500 for the store: Connection refused (10.0.0.2:29500)", kTimeout, kNotFound (no such
// host).
UniqueFd connect_to(const Endpoint& endpoint, Deadline deadline,
                    const ConnectOptions& options = {});

// Sets the options that every connection of a job has (see above). Throws kIo.
void tune_connection(int fd);

// The addresses of both ends of a connected socket.
Address local_address(int fd);
Address peer_address(int fd);

struct ListenOptions {
  std::string host{};      // name or address to bind; empty: all interfaces, IPv4 and IPv6
  std::uint16_t port = 0;  // 0: the system picks one
  int backlog = 512;
};

class Listener {
 public:
  // Throws kConnection "listen on 0.0.0.0:29500: Address already in use; ..."; kNotFound if no
  // network interface of this host has the address.
  static Listener bind(const ListenOptions& options = {});
  // Takes over a descriptor that already listens (inherited, or from systemd). Throws
  // kInvalidArgument if it does not listen.
  static Listener from_fd(UniqueFd fd);

  int fd() const noexcept { return fd_.get(); }
  UniqueFd release() noexcept { return std::move(fd_); }
  // The address it listens at, with the real port even if 0 was asked for.
  const Address& address() const noexcept { return address_; }
  std::uint16_t port() const noexcept { return address_.port(); }

  struct Accepted {
    UniqueFd fd;
    Address peer;
  };
  // The next connection, or nullopt if there is none now. Throws kIo if the process or the system
  // has no descriptors or memory left.
  std::optional<Accepted> accept();

 private:
  Listener(UniqueFd fd, Address address) noexcept : fd_(std::move(fd)), address_(address) {}
  UniqueFd fd_;
  Address address_;
};

}  // namespace dl::rendezvous
