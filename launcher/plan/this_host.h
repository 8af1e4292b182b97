// Tells whether a name or an address belongs to this host.
#pragma once

#include <string>

namespace dl::launcher {

// True for "localhost", for this host's name, and for a name that resolves to an address of this
// host (is_of_this_host() in address.h). False for a name that does not resolve within 5 s.
bool is_this_host(const std::string& host);

}  // namespace dl::launcher
