// Tells whether a name or an address belongs to this host.
#pragma once

#include <string>

namespace dl::launcher {

// True for "localhost", for this host's name, and for a name that resolves to an address of this
// host (is_of_this_host() in address.h). False for a name that does not resolve within 5 s.
bool is_this_host(const std::string& host);

// The network interface of `own_address` if a program that looks this host's address up by the
// host's name, as Gloo does, gets none that other hosts can reach: Debian maps the name to
// 127.0.1.1. "" otherwise, or if the address is none of this host's.
std::string interface_beside_name(const std::string& own_address);

}  // namespace dl::launcher
