// This host on the network: its names and addresses, and a free port.
#pragma once

#include <cstdint>
#include <string>

namespace dl::launcher {

// True for "localhost", for this host's name, and for a name that resolves to an address of this
// host (is_of_this_host() in address.h). False for a name that does not resolve within 5 s.
bool is_this_host(const std::string& host);

// The network interface of `own_address` if a program that looks this host's address up by the
// host's name, as Gloo does, gets none that other hosts can reach: Debian maps the name to
// 127.0.1.1. "" otherwise, or if the address is none of this host's.
std::string interface_beside_name(const std::string& own_address);

// The interface of an address if that is of the loopback, so that all nodes are on this host; else
// "". Programs that look for the host's networks leave this one out.
std::string loopback_interface(const std::string& own_address);

// The errno value with which a process of this user could not listen on the port, on every address
// of this node: EADDRINUSE, or EACCES (as a rule, ports below 1024 are root's); 0 if it could.
int port_obstacle(std::uint16_t port);

// For MASTER_PORT: a free port below the ephemeral range: an outgoing connection cannot take it
// before rank 0 listens. Chosen at random, so that jobs that start together choose different ones.
// Throws kIo if no port is free.
std::uint16_t choose_port();

}  // namespace dl::launcher
