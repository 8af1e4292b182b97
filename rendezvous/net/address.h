// Where somebody listens: as a person writes it (Endpoint) and as the kernel wants it (Address).
//
// Both are plain values.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"

namespace dl::rendezvous {

// A host name or a numeric address, and a port.
struct Endpoint {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  // "node1:29500", "10.0.0.2:29500", "[fe80::1%eth0]:29500". Throws kInvalidArgument with the text
  // quoted.
  static Endpoint parse(std::string_view text);
  // The text that parse() takes.
  std::string text() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// An IPv4 or IPv6 socket address.
class Address {
 public:
  Address() noexcept = default;
  Address(const sockaddr* address, socklen_t size) noexcept;

  const sockaddr* data() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const noexcept { return size_; }
  int family() const noexcept { return storage_.ss_family; }
  std::uint16_t port() const noexcept;
  bool is_loopback() const noexcept;
  // fe80::..., of which every interface has one; it means nothing without the interface's name.
  bool is_link_local() const noexcept;
  // 0.0.0.0 or ::, which is a place to listen and not one to connect to.
  bool is_any() const noexcept;
  // "10.0.0.2", "fe80::1%eth0"; an IPv4 address mapped into IPv6 prints as IPv4.
  std::string host() const;
  // "10.0.0.2:4711", "[::1]:4711"
  std::string text() const;

  friend bool operator==(const Address& a, const Address& b) noexcept;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

// All addresses of an endpoint, in the system's order of preference; at least one. Numeric hosts
// ask nobody. Throws kNotFound "resolve node7: Name or service not known", kConnection where the
// name service fails for now, kTimeout.
std::vector<Address> resolve(const Endpoint& endpoint, Deadline deadline);

// This host's addresses on a network interface ("eth0") or in a network ("10.0.0.0/8"), or the one
// that the text itself is; port 0. Throws kNotFound and names what there is. Addresses that mean
// something on one link only (fe80::...) are left out where there are others.
std::vector<Address> interface_addresses(const std::string& interface);
// Those of all interfaces that are up, but for loopback and such.
std::vector<Address> host_addresses();

// The address that packets to `peer` leave from; port 0. Nothing is sent. Throws kConnection where
// there is no route.
Address local_address_towards(const Address& peer);

}  // namespace dl::rendezvous
