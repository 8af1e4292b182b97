// The command line of `dlrun-rendezvous join`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

struct BridgeOptions {
  Endpoint endpoint;
  // Further addresses of the service. All are tried at once (race.h).
  std::vector<Endpoint> other_endpoints = {};
  std::string job;
  JobKey key;
  std::chrono::seconds timeout{600};  // for a generation to be complete
  Silence silence = {};
  // A dlrun that is stopped or does not run its event loop for this long ends the job.
  std::chrono::seconds agent_timeout{600};
  bool serves = false;  // the service runs in this process
  int in = 0;
  int out = 1;
};

}  // namespace dl::rendezvous
