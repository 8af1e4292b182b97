// The address at which a job's rendezvous will be: bound and listening from the start, so that the
// address is certain, while the service behind it starts with the first connection.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/unique_fd.h"
#include "launcher/plan/plan.h"

namespace dl::launcher {

struct Listening {
  UniqueFd fd;
  std::string address;  // "127.0.0.1:40123"
};

// On this host only, at a port that the kernel chooses.
Listening listen_on_loopback();

// On every address of this host, IPv4 and IPv6, at the port of `endpoint` ("host:port"). Throws
// kIo: "--rdzv-endpoint a:29400: port 29400 is taken on HOST"; with Listens::kIfFree there is no
// descriptor then.
Listening listen_everywhere(const std::string& endpoint, const std::string& host, Listens listens);

}  // namespace dl::launcher
