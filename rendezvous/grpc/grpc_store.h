// GrpcStore: the client of a store in another process (the rendezvous service, or rank 0).
//
// The connection is authenticated with the job key (purpose "store") before gRPC sees it. If it is
// lost, calls make a new one and continue, for at most `reconnect_for`. A change under way is made
// exactly once. If the service was restarted, it has lost its keys: calls then throw kConnection.
//
// Thread-safety: see Store; calls of several threads share one connection. Destroy it only when no
// call is under way.
#pragma once

#include <memory>

#include "rendezvous/grpc/grpc_store_options.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

class GrpcStore final : public Store {
 public:
  // Connects, and keeps trying until the deadline if no server listens yet. Throws what
  // connect_and_prove() throws.
  GrpcStore(GrpcStoreOptions options, Deadline deadline);
  ~GrpcStore() override;

  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;
  std::optional<std::string> try_get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                       std::string_view desired, Deadline deadline) override;
  // Ends the calls of this client; the service and its other clients go on.
  void close(std::string_view reason) noexcept override;

 private:
  class Client;
  std::unique_ptr<Client> client_;
};

}  // namespace dl::rendezvous
