// What a node can find out about the endpoint of its rendezvous: the addresses to try, and why
// nodes with this endpoint do not meet. May ask name services; any thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

// The endpoint's numeric addresses. Try all at once, because some may be dead. IPv4 comes first,
// because programs put MASTER_ADDR into URLs. Empty: the name cannot be resolved now.
std::vector<Endpoint> ways_to(const Endpoint& endpoint, Deadline deadline);

// A clause in parentheses that says why a node does not reach the service at its endpoint, or "".
// `serves`: the service runs in this process.
std::string wrong_host_text(const Endpoint& endpoint, bool serves);

// A clause in parentheses if the endpoint means this host, but may mean another host there
// ("localhost", or one name for two hosts); else "".
std::string own_host_text(const Endpoint& endpoint);

// The host of DLRUN_STORE. That is `reached`, the address at which this node has reached the
// service. A loopback address does not show ranks the way to other hosts; so if `reached` is one
// and `master_addr` is another address of this host, it is `master_addr`.
std::string store_host(const std::string& reached, const std::string& master_addr);

}  // namespace dl::rendezvous
