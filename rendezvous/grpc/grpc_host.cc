#include "rendezvous/grpc/grpc_host.h"

#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "rendezvous/grpc/grpc_support.h"

namespace dl::rendezvous {

GrpcHost::GrpcHost(Acceptor& acceptor, std::vector<std::string> purposes,
                   const std::vector<grpc::Service*>& services)
    : acceptor_(acceptor), purposes_(std::move(purposes)) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kLongestMessage);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  DL_CHECK(server_ != nullptr, kInternal, "gRPC could not start a server");
  serve_through(acceptor_);
}

void GrpcHost::serve_through(Acceptor& acceptor) {
  for (const std::string& purpose : purposes_) {
    acceptor.serve(purpose, kAnyGeneration, [this](Connection connection) {
      // gRPC owns and closes the descriptor from here on.
      grpc::AddInsecureChannelFromFd(server_.get(), connection.fd.release());
    });
  }
}

GrpcHost::~GrpcHost() {
  shutdown(Deadline::after(std::chrono::seconds(0)));
}

void GrpcHost::shutdown(Deadline deadline) {
  for (const std::string& purpose : purposes_) acceptor_.forget(purpose);
  const auto left = std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(1)));
  server_->Shutdown(std::chrono::system_clock::now() + left);
  server_->Wait();
}

}  // namespace dl::rendezvous
