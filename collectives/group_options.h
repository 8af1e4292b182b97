// What the groups that connect themselves (shm, tcp, hybrid) are made from; each takes what it
// needs and passes the rest to the groups inside it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectives/algorithms/plan.h"
#include "collectives/record/recorder.h"
#include "core/base/deadline.h"
#include "core/base/ref.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::string name = "world";  // of the group: at most 128 bytes, no '/'
  // Where the ranks find each other; used only while the group is made. Keys of another generation
  // must not be seen through it (PrefixStore).
  rendezvous::Store* store = nullptr;
  // Without a key whoever runs as this user on this machine may take part, and over TCP, where the
  // group then listens on loopback only, whoever may use this machine's loopback.
  std::optional<rendezvous::JobKey> key{};
  std::string job = "local";
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(600);          // of an operation
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(300);  // of making the group
  // The deadline of making the group, if it is part of a larger step that has one; texts then still
  // name `connect_timeout`. Nullopt: `connect_timeout` from the call.
  std::optional<Deadline> connect_by{};
  bool all_say_here = false;  // as in RosterOptions
  std::string node{};         // what makes two ranks share a node; empty: the host's name
  std::chrono::nanoseconds speak_after = std::chrono::seconds(5);  // then a wait says for whom
  std::shared_ptr<record::Recorder> recorder{};  // of the process; null: nothing is recorded
  // Whether the agent is told of a peer's failure; false inside a group that tells it.
  bool reports_failures = true;
  int known_as = -1;  // the rank that texts name, where this group is part of another; -1: `rank`
  int job_rank = -1;  // this rank's number in the job, for its agent; -1: the one that texts name

  int in_job() const noexcept { return job_rank >= 0 ? job_rank : known_as >= 0 ? known_as : rank; }

  // Shared memory. --------------------------------------------------------------------------------
  Ref<RefCounted> segment{};  // from reserve_shm_segment(), for one group; null: it is made here

  // TCP. ------------------------------------------------------------------------------------------
  std::string iface{};     // interface, address, network to listen on; empty: all there are, first
  std::string route_to{};  // the one that leads to this host (the store's); empty too: loopback
  int lanes = 0;           // sockets a peer for data, the same on all ranks; 0: by their number
  Plan plan{};             // rank 0's counts, and picks the algorithms
  Ref<RefCounted> engine{};  // from make_tcp_engine(); null: one of its own
};

Deadline connect_deadline(const GroupOptions& options);
// Removes an earlier group's deadline, before a further group is made from its options.
void forget_connecting(GroupOptions& options);
// Throws kInvalidArgument for a name that no group can have.
void check_group_name(const std::string& name);
// Throws kInvalidArgument for a rank, size, name or store with which no group can be made.
void check_group(const GroupOptions& options);

}  // namespace dl::collectives
