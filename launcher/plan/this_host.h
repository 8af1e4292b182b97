// Whether a name or an address is this host's.
#pragma once

#include <string>

namespace dl::launcher {

// "localhost", this host's name, and what resolves to an address of one of its interfaces. A name
// that does not resolve within 5 s is another host's.
bool is_this_host(const std::string& host);

}  // namespace dl::launcher
