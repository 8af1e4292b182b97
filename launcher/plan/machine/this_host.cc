#include "launcher/plan/machine/this_host.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/plan/machine/machine.h"
#include "rendezvous/net/socket/address.h"

namespace dl::launcher {

bool is_this_host(const std::string& host) {
  if (host == "localhost" || host == host_name()) return true;
  try {
    const std::vector<rendezvous::Address> addresses =
        rendezvous::resolve({host, 0}, rendezvous::Deadline::after(std::chrono::seconds(5)));
    return std::any_of(addresses.begin(), addresses.end(), rendezvous::is_of_this_host);
  } catch (const Error&) {
    return false;
  }
}

namespace {

using rendezvous::Address;

// nullopt: --local-addr is a name.
std::optional<Address> numeric(const std::string& address) {
  try {
    return rendezvous::resolve({address, 0}, rendezvous::Deadline::after(std::chrono::seconds(0)))
        .front();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string interface_beside_name(const std::string& own_address) {
  const std::optional<Address> own = numeric(own_address);
  if (!own || own->is_loopback()) return {};  // all nodes are on this host
  std::vector<Address> named;
  try {
    named =
        rendezvous::resolve({host_name(), 0}, rendezvous::Deadline::after(std::chrono::seconds(1)));
  } catch (const Error&) {
    named.clear();  // no address at all
  }
  const bool is_found = std::any_of(named.begin(), named.end(), [](const Address& address) {
    return !address.is_loopback() && rendezvous::is_of_this_host(address);
  });
  return is_found ? std::string() : rendezvous::interface_of(*own);
}

std::string loopback_interface(const std::string& own_address) {
  const std::optional<Address> own = numeric(own_address);
  return own && own->is_loopback() ? rendezvous::interface_of(*own) : std::string();
}

}  // namespace dl::launcher
