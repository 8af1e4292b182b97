// MASTER_PORT: a TCP port for rank 0, free when it is chosen.
#pragma once

#include <cstdint>

namespace dl::launcher {

// Why nobody of this user could listen on the port, on every address of this node, just now:
// EADDRINUSE, EACCES (ports below 1024 are root's, as a rule); 0 where somebody could.
int port_obstacle(std::uint16_t port);

// A free port below the range from which the kernel serves ports to outgoing connections, so that
// none of those takes it before rank 0 listens. Chosen at random, so that jobs which start together
// do not meet. Throws kIo where no port is free.
std::uint16_t choose_port();

}  // namespace dl::launcher
