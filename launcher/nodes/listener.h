// The address of a job's rendezvous. It is bound and listens from the start, so that the address is
// certain; the service behind it starts with the first connection.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/system/unique_fd.h"
#include "launcher/plan/plan.h"

namespace dl::launcher {

struct Listening {
  UniqueFd fd;
  std::string address;  // "127.0.0.1:40123"
};

// Listens on this host only, at a port that the kernel chooses.
Listening listen_on_loopback();

// Listens on every address of this host, IPv4 and IPv6, at the port of the job's endpoint. If the
// port is taken, returns no descriptor with Listens::kIfFree, and otherwise throws kIo:
// "--rdzv-endpoint a:29400: port 29400 is taken on HOST".
Listening listen_everywhere(const JobPlan& job, const std::string& host, Listens listens);

}  // namespace dl::launcher
