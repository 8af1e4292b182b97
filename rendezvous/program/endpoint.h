// What a node can tell about the endpoint of its rendezvous: the addresses to try, and why nodes
// that have it do not meet. Name services may be asked; any thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

// The endpoint's addresses, numeric, to be tried at once, because some may be dead. IPv4 comes
// first, because programs put MASTER_ADDR into URLs. Empty: it cannot be resolved now.
std::vector<Endpoint> ways_to(const Endpoint& endpoint, Deadline deadline);

// A clause in parentheses about why a node does not reach the service at its endpoint, or "".
// `serves`: the service runs in this process.
std::string wrong_host_text(const Endpoint& endpoint, bool serves);

// A clause in parentheses if this host takes the endpoint for its own by a name or an address that
// other hosts may take for theirs, or "".
std::string own_host_text(const Endpoint& endpoint);

// The host of DLRUN_STORE: `reached`, the address at which this node has reached the service. If
// that is a loopback address, which tells ranks nothing of the way to other hosts, and
// `master_addr` is another address of this host, then `master_addr`.
std::string store_host(const std::string& reached, const std::string& master_addr);

}  // namespace dl::rendezvous
