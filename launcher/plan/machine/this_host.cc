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

std::string interface_beside_name(const std::string& own_address) {
  using rendezvous::Address;
  try {
    const Address own =
        rendezvous::resolve({own_address, 0}, rendezvous::Deadline::after(std::chrono::seconds(0)))
            .front();
    if (own.is_loopback()) return {};  // all nodes are on this host
    std::vector<Address> named;
    try {
      named = rendezvous::resolve({host_name(), 0},
                                  rendezvous::Deadline::after(std::chrono::seconds(1)));
    } catch (const Error&) {
      named.clear();  // no address at all
    }
    const bool is_found = std::any_of(named.begin(), named.end(), [](const Address& address) {
      return !address.is_loopback() && rendezvous::is_of_this_host(address);
    });
    return is_found ? std::string() : rendezvous::interface_of(own);
  } catch (const Error&) {
    return {};  // --local-addr is a name
  }
}

}  // namespace dl::launcher
