// How a client of a store in another process reaches it: the rendezvous service, or rank 0.
#pragma once

#include <chrono>

#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

struct GrpcStoreOptions {
  Endpoint endpoint;
  JobKey key;
  Hello hello{};  // job, generation, from, rank; the purpose is set by the store
  std::chrono::nanoseconds reconnect_for = std::chrono::seconds(10);
  std::chrono::nanoseconds warn_after = kWarnAfter;
};

}  // namespace dl::rendezvous
