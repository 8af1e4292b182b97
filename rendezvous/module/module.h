// Module: the part of libdlrun_rendezvous.so that programs use, the only place in which a rank
// meets gRPC. remote_store.h opens it on first use.
//
// It contains its own copies of dlrun's libraries, and must be of the program's build: C++ objects
// and exceptions pass between them. Thread-safety: any thread may call.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/deadline.h"
#include "core/base/log/log.h"
#include "core/base/system/process/stopped.h"
#include "rendezvous/grpc/grpc_store_options.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

class Acceptor;

// What the module asks its program for, because it exists once in a process.
struct Host {
  log::Log log;
  decltype(&dl::stopped_time) stopped_time = &dl::stopped_time;
};

struct Module {
  // A GrpcStore; throws what its constructor throws.
  std::unique_ptr<Store> (*connect)(GrpcStoreOptions options, Deadline deadline);
  // A GrpcStoreServer, as its local store, which ends with the last copy of the pointer.
  std::shared_ptr<Store> (*serve)(Acceptor& acceptor);
};

// Increment it with each change of the structs above, or of a class that they name.
inline constexpr std::uint32_t kModuleAbi = 1;
// extern "C"; returns null if `abi` or `version` (dlrun's) is not the module's.
using OpenModule = const Module* (*)(std::uint32_t abi, const char* version, const Host* host);
inline constexpr char kModuleSymbol[] = "dlrun_rendezvous_module";

}  // namespace dl::rendezvous
