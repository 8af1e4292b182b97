#include "rendezvous/service/grpc_store_server.h"

#include <chrono>

#include "rendezvous/grpc/grpc_host.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/service/store_service.h"
#include "rendezvous/stores/memory_store.h"

namespace dl::rendezvous {
namespace {

// Time for sending the last answers. gRPC waits this long whenever a client stays connected.
constexpr std::chrono::milliseconds kFarewell{200};

}  // namespace

struct GrpcStoreServer::Impl {
  explicit Impl(Acceptor& acceptor)
      : service(store.table()), host(acceptor, {std::string(kStorePurpose)}, {&service}) {}
  ~Impl() {
    store.close("the process that hosts the store has ended");
    host.shutdown(Deadline::after(kFarewell));
  }

  MemoryStore store;
  StoreService service;
  GrpcHost host;
};

GrpcStoreServer::GrpcStoreServer(Acceptor& acceptor) : impl_(std::make_unique<Impl>(acceptor)) {}

GrpcStoreServer::~GrpcStoreServer() = default;

Store& GrpcStoreServer::local() noexcept {
  return impl_->store;
}

}  // namespace dl::rendezvous
