#include "launcher/plan/this_host.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/plan/machine.h"
#include "rendezvous/net/address.h"

namespace dl::launcher {

bool is_this_host(const std::string& host) {
  if (host == "localhost" || host == host_name()) return true;
  try {
    const std::vector<rendezvous::Address> theirs =
        rendezvous::resolve({host, 0}, Deadline::after(std::chrono::seconds(5)));
    if (theirs.front().is_loopback()) return true;
    const std::vector<rendezvous::Address> own = rendezvous::host_addresses();
    return std::any_of(theirs.begin(), theirs.end(), [&](const rendezvous::Address& address) {
      return std::any_of(own.begin(), own.end(), [&](const rendezvous::Address& mine) {
        return mine.host() == address.host();
      });
    });
  } catch (const Error&) {
    return false;
  }
}

}  // namespace dl::launcher
