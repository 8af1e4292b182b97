// ShmGroup: the ProcessGroup over shared memory, for ranks on one node (docs/protocol.md,
// "Collectives over shared memory").
//
// Every rank owns one segment that all others map, and writes only into that and into its own
// buffers. Collectives run there: up to 56 bytes beside the flag, more in chunks through the
// owner's slots. send, recv and the v-variants go through an inner TCP group on this host's
// loopback, which numbers its operations by itself.
//
// Who works: whoever waits for an operation does its share of the work itself, on its own thread,
// and then needs no other. An operation for which nobody waits is carried on by the group's
// progress thread, which takes it up after a millisecond, or at once where earlier operations had
// to be taken up; give that thread a core of its own where communication shall hide behind
// computation. A thread that waits spins, then gives its core to others, then sleeps
// (wait_policy.h).
//
// Errors are those of process_group.h. A peer's death is noticed at once, as its socket closes; a
// stopped one is named at the deadline. Since no rank writes into a buffer of another, one that was
// stopped and goes on after an error changes no byte of the others.
//
// A ShmGroup owns its segment and a share in those of all others; nothing of them has a name in a
// file system. Dropping it ends operations under way with kAborted on every rank. Thread-safety:
// process_group.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectives/process_group.h"
#include "collectives/record/recorder.h"
#include "core/base/ref.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

struct ShmGroupOptions {
  int rank = 0;
  int size = 1;
  std::string name = "world";  // of the group: at most 128 bytes, no '/'
  // Where the ranks find each other; used only while the group is made. Keys of another generation
  // must not be seen through it (PrefixStore).
  rendezvous::Store* store = nullptr;
  // Without a key, whoever runs as this user on this machine may take part.
  std::optional<rendezvous::JobKey> key{};
  std::string job = "local";
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(600);          // of an operation
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(300);  // of making the group
  std::string node{};  // what makes two ranks share a node; empty: the host's name
  std::chrono::nanoseconds speak_after = std::chrono::seconds(5);  // then a wait says for whom
  std::shared_ptr<record::Recorder> recorder{};  // of the process; null: nothing is recorded
  Ref<RefCounted> engine{};  // of the inner TCP group, from make_tcp_engine(); null: one of its own
  // The inner group itself, of the same ranks; null: it is made with the rest. Not shared.
  Ref<ProcessGroup> messages{};
  bool reports_failures = true;  // as in tcp_group.h
  int known_as = -1;  // the rank that texts name, where this group is part of another; -1: `rank`
  Ref<RefCounted> segment{};  // from reserve_shm_segment(), for one group; null: it is made here
};

// The memory that a rank brings into a group, so that it knows whether it has any before all agree
// to share theirs. Throws kIo.
Ref<RefCounted> reserve_shm_segment();

// Collective: every rank calls it. Throws kTimeout (names who is missing), kMismatch (protocol
// version, world size, generation), kAuthentication, kConnection (no way between two ranks: other
// nodes, or other network namespaces), kIo (no memory), kInvalidArgument.
Ref<ProcessGroup> make_shm_group(const ShmGroupOptions& options);

}  // namespace dl::collectives
