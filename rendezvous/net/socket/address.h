// Addresses, in two forms: as a user writes them (Endpoint), and as the kernel uses them (Address).
//
// Both are values; any thread.
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
  // fe80::... Every interface has one, so it is ambiguous without the interface's name.
  bool is_link_local() const noexcept;
  // 0.0.0.0 or ::, at which a process listens but to which none connects.
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
// need no name service. Throws kNotFound "resolve node7: Name or service not known", kConnection if
// the name service fails temporarily, kTimeout.
std::vector<Address> resolve(const Endpoint& endpoint, Deadline deadline);

// This host's addresses on a network interface ("eth0") or in a network ("10.0.0.0/8"), or the
// address itself if `interface` is one; the port is 0. Omits link-local addresses (fe80::...) if
// there are others. Throws kNotFound with a list of this host's addresses.
std::vector<Address> interface_addresses(const std::string& interface);
// The addresses of all interfaces that are up, except loopback and the like: those at which another
// host may reach this one; port 0.
std::vector<Address> host_addresses();
// The addresses of all interfaces that are up, loopback and link-local ones too; port 0.
std::vector<Address> all_addresses();

// The network interface that has the address; "": none.
std::string interface_of(const Address& address);

// True if packets to the address stay on this host: an address of one of its interfaces, a loopback
// address, 0.0.0.0 or ::. Ignores the port.
bool is_of_this_host(const Address& address);

// Sorts IPv4 before IPv6, keeps the order otherwise, and removes repetitions.
void put_ipv4_first(std::vector<Address>& addresses);

// The source address of packets to `peer`; port 0. Nothing is sent. Throws kConnection if there is
// no route.
Address local_address_towards(const Address& peer);

}  // namespace dl::rendezvous
