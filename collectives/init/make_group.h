// make_group(): a group of ranks that the caller numbers, over an opaque id or a store of the
// caller's.
//
// For bindings, and programs that have their own way to pass bytes on: a process may be in any
// number of such groups, and in several worlds. They are independent of init_process_group().
//
//     UniqueId id;
//     if (rank == 0) id = make_unique_id();
//     ...  // pass the 128 bytes on: by a file, a queue, MPI
//     auto group = make_group({.rank = rank, .size = size, .id = id});
//
// Over a store rank 0 sets one key, which the other ranks get. All else goes through connections to
// rank 0. Thread-safety: any thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/join/meet/unique_id.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/store.h"

namespace dl {

struct MakeGroupOptions {
  int rank = 0;
  int size = 1;
  // Equal on all ranks, and unique among the groups that are ever made in this store.
  std::string name = "group";
  // From make_unique_id() on rank 0. Give either an id or a store.
  std::optional<UniqueId> id{};
  // Used until the call returns; set() and get() are enough. The key is "dlrun/NAME/id".
  rendezvous::Store* store = nullptr;
  // The secret of the ranks. Nullopt: the id's, and over a store any process that can read the
  // store can join.
  std::optional<rendezvous::JobKey> key{};
  std::string backend = "auto";  // "auto", "shm", "tcp" or "hybrid"; see ProcessGroupOptions
  std::chrono::nanoseconds timeout =
      std::chrono::seconds(600);  // of an operation, and of this call
  // Interface, address or network for connections between hosts; empty: DLRUN_IFACE, else all.
  std::string iface{};
  std::string plan{};  // as in ProcessGroupOptions
  std::string algorithm{};
  // The RANK of each rank of the group, by which errors name it, and by which dlrun notices that a
  // rank that others wait for has ended. Empty: not known, unless the group is the whole job.
  std::vector<int> job_ranks{};
};

// Collective over the group's ranks; returns when all have come. Throws kTimeout naming the missing
// ranks, kPeerFailed if a rank leaves, kMismatch, kConnection, kAuthentication, kInvalidArgument,
// and what the store throws.
Ref<collectives::ProcessGroup> make_group(const MakeGroupOptions& options);

namespace collectives {

struct GroupOptions;

// What the rest of the process makes of a group of the CPU's memory: a group for GPUs, too.
using Finish = std::function<Ref<ProcessGroup>(Ref<ProcessGroup> host)>;
inline Ref<ProcessGroup> keep_host(Ref<ProcessGroup> host) {
  return host;
}

// Chooses the backend (choice.h) and makes the group, which can be re-formed. `how`: without a
// store only for one rank. `begin_round`: of a RoundStore, called before the making's second round
// and each later one.
Ref<ProcessGroup> connect_group(
    const GroupOptions& how, const std::string& asked, const Finish& finish = keep_host,
    const std::function<void(int)>& begin_round = [](int) {});

}  // namespace collectives
}  // namespace dl
