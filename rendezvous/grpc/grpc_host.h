// A gRPC server without a port: it serves connections that an Acceptor has accepted. Included by
// .cc files only.
//
// Owns its grpc::Server; the acceptor and the services must outlive it. Any thread.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/net/connect/acceptor.h"

namespace dl::rendezvous {

class GrpcHost {
 public:
  // Serves all services on connections of each purpose. Throws kInternal if gRPC cannot start.
  GrpcHost(Acceptor& acceptor, std::vector<std::string> purposes,
           const std::vector<grpc::Service*>& services);
  ~GrpcHost();
  GrpcHost(const GrpcHost&) = delete;
  GrpcHost& operator=(const GrpcHost&) = delete;

  // Also serves connections of another acceptor, which may end before this object.
  void serve_through(Acceptor& acceptor);
  // Accepts no further connections, lets calls under way run until the deadline, then ends them.
  void shutdown(Deadline deadline);

 private:
  GrpcUse grpc_;
  Acceptor& acceptor_;
  std::vector<std::string> purposes_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace dl::rendezvous
