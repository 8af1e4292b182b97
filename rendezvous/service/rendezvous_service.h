// The rendezvous service: store and membership at one listening socket. `dlrun-rendezvous` runs it.
//
// Owns the listener, a thread that accepts, a thread for the membership, and gRPC's threads. Any
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/deadline.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::rendezvous {

struct RendezvousServiceOptions {
  std::chrono::milliseconds dead_after{std::chrono::seconds(10)};  // of silence: a node is lost
  // True if the ranks need the listener's port. While a generation runs, the service leaves the
  // port to them and listens at another one. Connections stay.
  bool moves = false;
};

class RendezvousService {
 public:
  RendezvousService(Listener listener, const JobKey& key, const std::string& job,
                    const RendezvousServiceOptions& options = {});
  ~RendezvousService();
  RendezvousService(const RendezvousService&) = delete;
  RendezvousService& operator=(const RendezvousService&) = delete;

  // Refuses changes of the store by earlier generations. For a job whose generations are not
  // counted by this service's membership.
  void begin_generation(std::uint64_t generation);
  // Accepts no more nodes. Waits until the deadline for the present nodes to leave, and ends the
  // rest.
  void shutdown(Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dl::rendezvous
