// TcpGroup: the ProcessGroup over TCP (docs/protocol.md, "Collectives over TCP").
//
// Every rank holds two connections to every other, proved by the handshake of rendezvous/net. Sums
// travel around a ring, small operations in one exchange; half precision and integer averages as
// raw shares that are summed wide, once. Who works while an operation runs: whoever waits for it,
// else the engine's thread (wait_policy.h, tcp/engine.h); give that thread a core of its own where
// communication shall hide behind computation.
//
// A TcpGroup owns its connections and a share of its engine. Dropping it says goodbye: it blocks
// until the peers' kernels have everything that was sent, at most 1 s; operations under way end
// with kAborted on every rank. Thread-safety: process_group.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectives/algorithms/plan.h"
#include "collectives/process_group.h"
#include "collectives/record/recorder.h"
#include "core/base/ref.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// What the groups of one process share: the progress thread. Opaque; made once, near main().
Ref<RefCounted> make_tcp_engine();

struct TcpGroupOptions {
  int rank = 0;
  int size = 1;
  std::string name = "world";  // of the group: at most 128 bytes, no '/'
  // Where the ranks find each other; used only while the group is made. Keys of another generation
  // must not be seen through it (PrefixStore).
  rendezvous::Store* store = nullptr;
  // Without a key the group listens on loopback only, and whoever may use this machine's loopback
  // may take part.
  std::optional<rendezvous::JobKey> key{};
  std::string job = "local";
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(600);          // of an operation
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(300);  // of making the group
  std::chrono::nanoseconds speak_after = std::chrono::seconds(5);  // then a wait says for whom
  std::string iface{};     // interface, address, network to listen on; empty: all there are, first
  std::string route_to{};  // the one that leads to this host (the store's); empty too: loopback
  int lanes = 0;           // sockets a peer for data, the same on all ranks; 0: by their number
  std::string node{};      // what makes two ranks share a node; empty: the host's name
  // Whether the agent is told of a peer's failure; false inside a group that tells it.
  bool reports_failures = true;
  std::shared_ptr<record::Recorder> recorder{};  // of the process; null: nothing is recorded
  Plan plan{};                                   // rank 0's counts, and picks the algorithms
  Ref<RefCounted> engine{};                      // from make_tcp_engine(); null: one of its own
  int known_as = -1;  // the rank that texts name, where this group is part of another; -1: `rank`
};

// Collective: every rank calls it. Throws kTimeout (names who is missing), kMismatch (protocol
// version, world size, generation), kAuthentication, kConnection, kInvalidArgument.
Ref<ProcessGroup> make_tcp_group(const TcpGroupOptions& options);

}  // namespace dl::collectives
