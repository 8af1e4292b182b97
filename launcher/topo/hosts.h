// `dlrun topo --hosts`: asks each host for its own map, and shows hosts that look alike once.
#pragma once

#include <string>
#include <vector>

#include "launcher/remote/ask/ask_hosts.h"
#include "launcher/topo/topo.h"

namespace dl::launcher::topo {

// In the order of the choice. Says on standard error for which hosts it waits. Throws Error.
std::vector<AskedHost> ask_maps(const remote::HostChoice& choice);

// The parts of it that need no host, for tests.

// The map has the name under which the host was asked.
AskedHost map_in(const remote::HostAnswer& answer);

// Hosts whose page, matrix and picture differ by the host's name only are one entry, with all names
// in `host`: "16 hosts (n01-n16)". The order is that of the first host of each.
std::vector<HostMap> alike(const std::vector<AskedHost>& hosts);

// "n01-n16, login": names that differ by one in their last digits are a range.
std::string ranges_of(const std::vector<std::string>& names);

}  // namespace dl::launcher::topo
