// The store of a job inside a process: rank 0 hosts it if no rendezvous service runs.
//
//   Acceptor acceptor(Listener::bind({.port = master_port}), key, {.job = job, .from = "rank 0"});
//   GrpcStoreServer server(acceptor);
//   acceptor.start();
//   server.local().set("address/0", "10.0.0.1:4711", deadline);  // needs no connection
//   GrpcStore store(options, deadline);                           // in the other processes
//
// Serves the purpose "store" of an Acceptor, which must outlive it. Owns the keys. When it is
// destroyed, the clients' calls end with kAborted. Any thread.
#pragma once

#include <memory>

#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

class GrpcStoreServer {
 public:
  explicit GrpcStoreServer(Acceptor& acceptor);
  ~GrpcStoreServer();
  GrpcStoreServer(const GrpcStoreServer&) = delete;
  GrpcStoreServer& operator=(const GrpcStoreServer&) = delete;

  // Access to the keys without a connection; lives as long as the server.
  Store& local() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dl::rendezvous
