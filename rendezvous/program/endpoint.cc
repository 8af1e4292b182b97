#include "rendezvous/program/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/base/error.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

// Empty: unknown.
std::vector<Address> addresses_of(const std::string& host, Deadline deadline) {
  try {
    return resolve({.host = host, .port = 0}, deadline);
  } catch (const Error&) {
    return {};
  }
}

// Such an address means the own host, on every host.
bool is_every_hosts(const Address& address) {
  return address.is_loopback() || address.is_any();
}

}  // namespace

std::vector<Endpoint> ways_to(const Endpoint& endpoint, Deadline deadline) {
  std::vector<Address> addresses = addresses_of(endpoint.host, deadline);
  put_ipv4_first(addresses);
  // Skip a family that this host does not have. It would be tried until the deadline, even if the
  // service has refused this node at its other address.
  const auto has_no_route = [](const Address& address) {
    try {
      static_cast<void>(local_address_towards(address));
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  if (!std::ranges::all_of(addresses, has_no_route)) std::erase_if(addresses, has_no_route);
  std::vector<Endpoint> ways;
  for (const Address& address : addresses) ways.push_back({address.host(), endpoint.port});
  return ways;
}

// Node 0 serves on all addresses of its host, so no node can reach it at another host's address.
std::string wrong_host_text(const Endpoint& endpoint, bool serves) {
  const std::vector<Address> all = addresses_of(endpoint.host, Deadline::after(1s));
  if (all.empty()) return {};
  if (serves && std::ranges::none_of(all, &is_of_this_host)) {
    return fmt::format(
        " (this is node 0, which serves the rendezvous, and its host has no address {})",
        endpoint.host);
  }
  if (!serves && std::ranges::all_of(all, &is_of_this_host)) {
    return fmt::format(
        " ({} is this host itself; if node 0 is on another host, give an address of that host)",
        endpoint.host);
  }
  return {};
}

std::string own_host_text(const Endpoint& endpoint) {
  const std::vector<Address> all = addresses_of(endpoint.host, Deadline::after(1s));
  if (all.empty() || !std::ranges::all_of(all, &is_every_hosts)) return {};
  const std::string address = all.front().host();
  return fmt::format(
      " (this host is node 0, because {} is {} here; if another host takes it for its own too, the "
      "two never meet: give all nodes an address at which they reach one host)",
      endpoint.host, address == endpoint.host ? "the host itself" : address);
}

std::string store_host(const std::string& reached, const std::string& master_addr) {
  const Deadline at_once = Deadline::after(0s);  // no name service
  const std::vector<Address> here = addresses_of(reached, at_once);
  if (here.empty() || !here.front().is_loopback()) return reached;
  const std::vector<Address> master = addresses_of(master_addr, at_once);
  const bool is_better =
      !master.empty() && !is_every_hosts(master.front()) && is_of_this_host(master.front());
  return is_better ? master_addr : reached;
}

}  // namespace dl::rendezvous
