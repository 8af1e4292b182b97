#include "launcher/plan/this_host.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/plan/machine.h"
#include "rendezvous/net/address.h"

namespace dl::launcher {

bool is_this_host(const std::string& host) {
  if (host == "localhost" || host == host_name()) return true;
  try {
    const std::vector<rendezvous::Address> addresses =
        rendezvous::resolve({host, 0}, Deadline::after(std::chrono::seconds(5)));
    return std::any_of(addresses.begin(), addresses.end(), rendezvous::is_of_this_host);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace dl::launcher
