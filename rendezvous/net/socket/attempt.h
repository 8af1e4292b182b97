// One attempt to connect to an endpoint. Writes no log, so that dlrun itself can use it.
#pragma once

#include <string>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

// Why an endpoint cannot be reached now.
struct Obstacle {
  ErrorKind kind = ErrorKind::kConnection;
  std::string text = {};
  bool is_for_good = false;
};

// Tries each address of the endpoint once. Returns a connected socket without the options of
// tune_connection(), or an empty descriptor with the obstacle. If the deadline ends an attempt
// early, `obstacle` keeps the reason of an earlier attempt. `hangup_fd`: as in ConnectOptions.
UniqueFd try_addresses(const Endpoint& endpoint, Deadline deadline, int hangup_fd,
                       Obstacle& obstacle);

}  // namespace dl::rendezvous
