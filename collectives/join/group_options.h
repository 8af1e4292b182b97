// Options of the groups that connect themselves (shm, tcp, hybrid); each uses what it needs and
// passes the rest to its inner groups.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/algorithms/plan.h"
#include "collectives/record/recorder.h"
#include "core/base/deadline.h"
#include "core/base/lifetime/ref.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// The progress thread that the TCP groups of a process may share. tcp::Engine is the only one.
class TcpEngine : public RefCounted {};

namespace shm {
class Segment;
}

// Memory that a rank has reserved for one group (reserve_shm_segment()).
class SegmentLease : public RefCounted {
 public:
  // Throws kInvalidArgument if `group` is not the first one that takes it.
  virtual shm::Segment take(std::string_view group) = 0;
};

struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::string name = "world";  // of the group: at most 128 bytes, no '/'
  // The store through which the ranks find each other; used only while the group is made. It must
  // not show keys of another generation (PrefixStore).
  rendezvous::Store* store = nullptr;
  // Without a key any process of this user on this machine may take part. A TCP group then listens
  // on loopback only, and any process that can use the machine's loopback may take part.
  std::optional<rendezvous::JobKey> key{};
  std::string job = "local";
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(600);          // of an operation
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(300);  // of making the group
  // The deadline of making the group, if a larger step has one; error texts still name
  // `connect_timeout`. Nullopt: `connect_timeout` from the call.
  std::optional<Deadline> connect_by{};
  bool all_announced = false;  // see RosterOptions
  std::string node{};          // ranks with equal `node` share a node; empty: the host's name
  // After this time a wait logs the missing ranks.
  std::chrono::nanoseconds warn_after = std::chrono::seconds(5);
  std::shared_ptr<record::Recorder> recorder{};  // of the process; null: nothing is recorded
  // Whether a peer's failure is reported to the agent; false inside a group that does so itself.
  bool reports_failures = true;
  int known_as = -1;  // the rank in error texts, if this group is part of another; -1: `rank`
  int job_rank = -1;  // this rank's number in the job, for its agent; -1: the one in texts

  int in_job() const noexcept { return job_rank >= 0 ? job_rank : known_as >= 0 ? known_as : rank; }

  // Shared memory. --------------------------------------------------------------------------------
  Ref<SegmentLease> segment{};  // for one group; null: a new one

  // TCP. ------------------------------------------------------------------------------------------
  std::string iface{};  // interface, address or network to listen on; empty: see leaves_host
  // Ranks on other hosts have to reach this one. False: without iface, listen on loopback only.
  bool leaves_host = false;
  // Without iface: of several addresses, the one towards this host comes first; empty: not known.
  std::string route_to{};
  int lanes = 0;            // data sockets to each peer, the same on all ranks; 0: by group size
  Plan plan{};              // picks the algorithms; rank 0's counts for all
  Ref<TcpEngine> engine{};  // from make_tcp_engine(); null: a new one
};

Deadline connect_deadline(const GroupOptions& options);
// Removes what is for making one group only, before another group is made from these options.
void forget_connecting(GroupOptions& options);
// Throws kInvalidArgument for an invalid name.
void check_group_name(const std::string& name);
// Throws kInvalidArgument for an invalid rank, size or name, or a missing store.
void check_group(const GroupOptions& options);

}  // namespace dl::collectives
