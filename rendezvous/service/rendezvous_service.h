// The rendezvous service: store and membership behind one listening socket. `dlrun-rendezvous` runs
// it.
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
  std::chrono::milliseconds dead_after{std::chrono::seconds(10)};  // a silent node is lost then
  // The ranks need the listener's port. While a generation runs, the service leaves it to them and
  // is reached at another port; connections stay.
  bool moves = false;
};

class RendezvousService {
 public:
  RendezvousService(Listener listener, const JobKey& key, const std::string& job,
                    const RendezvousServiceOptions& options = {});
  ~RendezvousService();
  RendezvousService(const RendezvousService&) = delete;
  RendezvousService& operator=(const RendezvousService&) = delete;

  const Address& address() const noexcept;
  // Refuses the store to earlier generations; for a job whose generations this service's membership
  // does not count.
  void begin_generation(std::uint64_t generation);
  // Accepts no more nodes, gives the present ones until the deadline to leave, and ends the rest.
  void shutdown(Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dl::rendezvous
