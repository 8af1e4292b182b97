// The entry of libdlrun_rendezvous.so.
#include "rendezvous/module/module.h"

#include <utility>

#include "core/base/version.h"
#include "rendezvous/grpc/grpc_store.h"
#include "rendezvous/service/grpc_store_server.h"

namespace dl::rendezvous {
namespace {

std::unique_ptr<Store> connect(GrpcStoreOptions options, Deadline deadline) {
  return std::make_unique<GrpcStore>(std::move(options), deadline);
}

std::shared_ptr<Store> serve(Acceptor& acceptor) {
  const auto server = std::make_shared<GrpcStoreServer>(acceptor);
  return {server, &server->local()};
}

constexpr Module kModule{.connect = &connect, .serve = &serve};

}  // namespace
}  // namespace dl::rendezvous

extern "C" [[gnu::visibility("default")]] const dl::rendezvous::Module* dlrun_rendezvous_module(
    std::uint32_t abi, const char* version, const dl::rendezvous::Host* host) {
  using namespace dl;
  using namespace dl::rendezvous;
  if (abi != kModuleAbi || version != kVersion) return nullptr;
  log::forward_to(host->log);
  use_stopped_time(host->stopped_time);
  return &kModule;
}
