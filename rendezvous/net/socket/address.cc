#include "rendezvous/net/socket/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/thread.h"
#include "core/base/system/unique_fd.h"

namespace dl::rendezvous {
namespace {

struct FreeAddrInfo {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
using AddrInfo = std::unique_ptr<addrinfo, FreeAddrInfo>;

struct Resolution {
  int error = 0;
  int system_error = 0;
  AddrInfo list;
};

Resolution look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  Resolution result;
  result.error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  result.system_error = errno;
  if (result.error == 0) result.list.reset(list);
  return result;
}

// getaddrinfo() has no deadline and cannot be cancelled. So it runs on a thread of its own, which
// is left behind when the deadline passes. Both threads share this object, because either may be
// the last to use it.
struct Question {
  Mutex mutex;
  std::condition_variable answered;
  bool done DL_GUARDED_BY(mutex) = false;
  Resolution answer DL_GUARDED_BY(mutex);
};

Resolution look_up_by(const Endpoint& endpoint, Deadline deadline) {
  const auto question = std::make_shared<Question>();
  make_thread(fmt::format("resolve {}", endpoint.host), [question, endpoint] {
    Resolution answer = look_up(endpoint.host, endpoint.port, 0);
    const Lock lock(question->mutex);
    question->answer = std::move(answer);
    question->done = true;
    question->answered.notify_one();
  }).detach();
  Lock lock(question->mutex);
  const auto is_done = [&]() DL_REQUIRES(question->mutex) { return question->done; };
  DL_CHECK(wait_until(question->answered, lock.native(), deadline, is_done), kTimeout,
           "resolve {}: no answer from the name service in time", endpoint.host);
  return std::move(question->answer);
}

}  // namespace

Endpoint Endpoint::parse(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    throw_error(ErrorKind::kInvalidArgument,
                "'{}' is not an address: {}; wanted HOST:PORT or [IPV6]:PORT", text, why);
  };
  Endpoint endpoint;
  std::string_view port;
  if (text.find("://") != std::string_view::npos) refuse("it is written without a scheme");
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) refuse("']' is missing");
    endpoint.host = text.substr(1, close - 1);
    if (close + 1 >= text.size() || text[close + 1] != ':') refuse("the port is missing");
    port = text.substr(close + 2);
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) refuse("the port is missing");
    endpoint.host = text.substr(0, colon);
    if (endpoint.host.find(':') != std::string::npos) refuse("an IPv6 address needs brackets");
    port = text.substr(colon + 1);
  }
  if (endpoint.host.empty()) refuse("the host is missing");
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    refuse("the port is not a number from 0 to 65535");
  }
  return endpoint;
}

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Address::Address(const sockaddr* address, socklen_t size) noexcept
    : size_(std::min<socklen_t>(size, sizeof storage_)) {
  std::memcpy(&storage_, address, size_);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
  if (storage_.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = v6->sin6_port;
    std::memcpy(&v4.sin_addr, &v6->sin6_addr.s6_addr[12], sizeof v4.sin_addr);
    storage_ = {};
    std::memcpy(&storage_, &v4, sizeof v4);
    size_ = sizeof v4;
  }
}

std::uint16_t Address::port() const noexcept {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

bool Address::is_loopback() const noexcept {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
  return family() == AF_INET && (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
}

bool Address::is_link_local() const noexcept {
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

bool Address::is_any() const noexcept {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
  }
  return family() == AF_INET &&
         reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr == INADDR_ANY;
}

std::string Address::host() const {
  char text[NI_MAXHOST] = "";
  if (size_ == 0 ||
      ::getnameinfo(data(), size_, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown address";
  }
  return text;
}

std::string Address::text() const {
  if (size_ > 0 && family() == AF_UNIX) return "a local socket";
  return size_ == 0 ? "unknown address" : Endpoint{host(), port()}.text();
}

bool operator==(const Address& a, const Address& b) noexcept {
  return a.size_ == b.size_ && a.family() == b.family() && a.port() == b.port() &&
         a.host() == b.host();
}

std::vector<Address> resolve(const Endpoint& endpoint, Deadline deadline) {
  Resolution found = look_up(endpoint.host, endpoint.port, AI_NUMERICHOST);
  if (found.error == EAI_NONAME) found = look_up_by(endpoint, deadline);
  if (found.error != 0) {
    const ErrorKind kind =
        found.error == EAI_NONAME ? ErrorKind::kNotFound : ErrorKind::kConnection;
    throw_error(kind, "resolve {}: {}", endpoint.host,
                found.error == EAI_SYSTEM ? std::strerror(found.system_error)
                                          : ::gai_strerror(found.error));
  }
  std::vector<Address> addresses;
  for (const addrinfo* entry = found.list.get(); entry != nullptr; entry = entry->ai_next) {
    addresses.emplace_back(entry->ai_addr, entry->ai_addrlen);
  }
  return addresses;
}

namespace {

struct Interface {
  std::string name;
  Address address;
};

std::vector<Interface> list_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) throw_errno(errno, "list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto size =
        static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back({entry->ifa_name, Address(entry->ifa_addr, size)});
  }
  return found;
}

std::optional<Address> numeric(const std::string& text) {
  const Resolution found = look_up(text, 0, AI_NUMERICHOST);
  if (found.error != 0) return std::nullopt;
  return Address(found.list->ai_addr, found.list->ai_addrlen);
}

std::span<const std::uint8_t> bytes_of(const Address& address) {
  if (address.family() == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr;
    return {reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip};
  }
  const auto& ip = reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr;
  return {reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip};
}

// "10.0.0.0/8", "fd00::/64".
struct Network {
  Address address;
  unsigned prefix;  // length of the common prefix in bits

  static std::optional<Network> parse(const std::string& text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos) return std::nullopt;
    const std::optional<Address> address = numeric(text.substr(0, slash));
    unsigned prefix = 0;
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data() + slash + 1, end, prefix);
    DL_CHECK(
        address && error == std::errc() && read == end && prefix <= 8 * bytes_of(*address).size(),
        kNotFound, "'{}' is not a network; wanted one like 10.0.0.0/8 or fd00::/64", text);
    return Network{*address, prefix};
  }

  bool contains(const Address& other) const {
    if (other.family() != address.family()) return false;
    const auto own = bytes_of(address);
    const auto its = bytes_of(other);
    const std::size_t whole = prefix / 8;
    if (!std::equal(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(whole), its.begin())) {
      return false;
    }
    return prefix % 8 == 0 || ((own[whole] ^ its[whole]) >> (8 - prefix % 8)) == 0;
  }
};

// True if a process can listen at the address. On an interface with a whole network, every address
// counts (127.0.0.2).
bool can_be_bound(const Address& address) {
  const UniqueFd fd(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd && ::bind(fd.get(), address.data(), address.size()) == 0;
}

// True if the kernel lets processes bind addresses that this host does not have (as on load
// balancers).
bool may_bind_any_address(int family) {
  std::ifstream file(family == AF_INET6 ? "/proc/sys/net/ipv6/ip_nonlocal_bind"
                                        : "/proc/sys/net/ipv4/ip_nonlocal_bind");
  int value = 0;
  return file >> value && value != 0;
}

bool has_same_host(const Address& a, const Address& b) {
  return a.family() == b.family() && a.host() == b.host();
}

}  // namespace

std::vector<Address> interface_addresses(const std::string& wanted) {
  const std::optional<Address> given = numeric(wanted);
  if (given && can_be_bound(*given)) return {*given};
  const std::optional<Network> network = Network::parse(wanted);
  std::vector<Address> addresses;
  std::vector<std::string> all;
  for (const Interface& interface : list_interfaces()) {
    all.push_back(fmt::format("{} {}", interface.name, interface.address.host()));
    if (interface.name == wanted || (network && network->contains(interface.address))) {
      addresses.push_back(interface.address);
    }
  }
  const char* const problem = given     ? "is not an address of this host"
                              : network ? "is a network that this host has no address in"
                                        : "is neither an address nor a network interface with one";
  DL_CHECK(!addresses.empty(), kNotFound, "'{}' {}; this host has: {}", wanted, problem,
           fmt::join(all, ", "));
  const auto is_local = [](const Address& address) { return address.is_link_local(); };
  if (!std::all_of(addresses.begin(), addresses.end(), is_local)) {
    std::erase_if(addresses, is_local);
  }
  return addresses;
}

std::vector<Address> host_addresses() {
  std::vector<Address> addresses;
  for (const Interface& interface : list_interfaces()) {
    const Address& address = interface.address;
    if (!address.is_loopback() && !address.is_link_local()) addresses.push_back(address);
  }
  return addresses;
}

std::vector<Address> all_addresses() {
  std::vector<Address> addresses;
  for (const Interface& interface : list_interfaces()) addresses.push_back(interface.address);
  return addresses;
}

std::string interface_of(const Address& address) {
  for (const Interface& interface : list_interfaces()) {
    if (has_same_host(interface.address, address)) return interface.name;
  }
  return {};
}

bool is_of_this_host(const Address& address) {
  if (address.is_loopback() || address.is_any()) return true;
  const std::vector<Address> own = all_addresses();
  return std::any_of(own.begin(), own.end(),
                     [&](const Address& mine) { return has_same_host(mine, address); }) ||
         (!may_bind_any_address(address.family()) && can_be_bound(address));
}

void put_ipv4_first(std::vector<Address>& addresses) {
  std::vector<Address> once;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const Address& address : addresses) {
      const bool is_new = std::none_of(once.begin(), once.end(),
                                       [&](const Address& other) { return other == address; });
      if (address.family() == family && is_new) once.push_back(address);
    }
  }
  addresses = std::move(once);
}

Address local_address_towards(const Address& peer) {
  const UniqueFd fd(::socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) throw_errno(errno, fmt::format("find the way to {}", peer.text()));
  // Connecting a datagram socket selects a route and sends nothing.
  DL_CHECK(::connect(fd.get(), peer.data(), peer.size()) == 0, kConnection,
           "find the way to {}: {}", peer.text(), std::strerror(errno));
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
    throw_errno(errno, fmt::format("find the way to {}", peer.text()));
  }
  if (local.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&local)->sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in*>(&local)->sin_port = 0;
  }
  return {reinterpret_cast<const sockaddr*>(&local), size};
}

}  // namespace dl::rendezvous
