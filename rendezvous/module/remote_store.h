// The store over gRPC, for programs: opens libdlrun_rendezvous.so (module.h) at the first call, so
// that a program that meets its ranks in another way loads no gRPC. Any thread.
#pragma once

#include <memory>

#include "core/base/deadline.h"
#include "rendezvous/grpc/grpc_store_options.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

class Acceptor;

// Both throw kNotFound if the module or a library that it needs is missing, kMismatch if it belongs
// to another build of dlrun.

// The client of a store in another process; throws what GrpcStore's constructor throws.
std::unique_ptr<Store> connect_store(GrpcStoreOptions options, Deadline deadline);

// Serves a store (GrpcStoreServer) through `acceptor`, which must outlive the last copy of the
// pointer. Returns that store.
std::shared_ptr<Store> serve_store(Acceptor& acceptor);

}  // namespace dl::rendezvous
