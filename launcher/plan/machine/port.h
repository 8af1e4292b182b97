// MASTER_PORT: a TCP port for rank 0, free when it is chosen.
#pragma once

#include <cstdint>

namespace dl::launcher {

// The errno value with which a process of this user could not listen on the port, on every address
// of this node: EADDRINUSE, or EACCES (as a rule, ports below 1024 are root's); 0 if it could.
int port_obstacle(std::uint16_t port);

// A free port below the ephemeral range: an outgoing connection cannot take it before rank 0
// listens. Chosen at random, so that jobs that start together choose different ones. Throws kIo if
// no port is free.
std::uint16_t choose_port();

}  // namespace dl::launcher
