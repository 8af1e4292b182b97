// make_group(): a group of ranks that the caller numbers, over a store of the caller's.
//
// For bindings, and programs that already have a store: a process may be in any number of such
// groups, of any of the processes that share the store, and in several worlds. They are independent
// of init_process_group(). Thread-safety: any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "collectives/api/process_group.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/store.h"

namespace dl {

struct MakeGroupOptions {
  int rank = 0;
  int size = 1;
  // Unique among the groups that are ever made in this store, and equal on all ranks.
  std::string name = "group";
  // Used until the call returns; set() and get() are enough. Keys begin with "dlrun/NAME/".
  rendezvous::Store* store = nullptr;
  // The secret of the ranks. Nullopt: rank 0 makes one and sends it through the store. Then any
  // process that can read the store can join.
  std::optional<rendezvous::JobKey> key{};
  std::string backend = "auto";  // "auto", "shm", "tcp" or "hybrid"; see ProcessGroupOptions
  std::chrono::nanoseconds timeout =
      std::chrono::seconds(600);  // of an operation, and of this call
  // Interface, address or network for connections between hosts; empty: DLRUN_IFACE, else all.
  std::string iface{};
  std::string plan{};  // as in ProcessGroupOptions
  std::string algorithm{};
};

// Collective over the group's ranks; returns when all have come. Throws kTimeout naming the missing
// ranks, kMismatch, kConnection, kAuthentication, kInvalidArgument, and what the store throws.
Ref<collectives::ProcessGroup> make_group(const MakeGroupOptions& options);

namespace collectives {

struct GroupOptions;

// Chooses the backend (choice.h) and makes the group, of two ranks or more.
Ref<ProcessGroup> connect_group(GroupOptions how, const std::string& asked);

}  // namespace collectives
}  // namespace dl
