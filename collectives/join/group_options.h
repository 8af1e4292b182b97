// Options of the groups that connect themselves (shm, tcp, hybrid); each uses what it needs and
// passes the rest to its inner groups.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/algorithms/plan.h"
#include "collectives/call/identity.h"
#include "collectives/record/recorder.h"
#include "core/base/deadline.h"
#include "core/base/lifetime/ref.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// The progress thread that several TCP groups of a process may share. Implemented by tcp::Engine.
class TcpEngine : public RefCounted {};

namespace shm {
class Segment;
}

// Memory that a rank has reserved for one group (reserve_shm_segment()).
class SegmentLease : public RefCounted {
 public:
  // Throws kInvalidArgument if another group has already taken the memory.
  virtual shm::Segment take(std::string_view group) = 0;
};

struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::string name = "world";  // of the group: at most 128 bytes, no '/'
  // The store through which the ranks find each other; used only while the group is made. It must
  // not show keys of another generation (PrefixStore).
  rendezvous::Store* store = nullptr;
  // Without a key, any process of this user on this machine may join. A TCP group then listens on
  // loopback only, and any process that can use the machine's loopback may join it.
  std::optional<rendezvous::JobKey> key{};
  std::string job = "local";
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(600);          // of an operation
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(300);  // of making the group
  // The deadline of making the group, if a larger step has a deadline; error texts still name
  // `connect_timeout`. Nullopt: `connect_timeout` after the call.
  std::optional<Deadline> connect_by{};
  bool all_announced = false;  // see RosterOptions
  // Called twice a second while ranks connect: throws if the group cannot be made, for example
  // because another rank has given up. Null: nothing tells.
  std::function<void()> check_making{};
  // Called now and then while this rank waits long for a rank's record: throws if that rank cannot
  // come. Null: nothing tells.
  std::function<void(int rank)> check_absent{};
  std::string node{};  // ranks with equal `node` share a node; empty: the host's name
  // A wait that lasts this long logs the missing ranks.
  std::chrono::nanoseconds warn_after = std::chrono::seconds(5);
  std::shared_ptr<record::Recorder> recorder{};  // of the process; null: nothing is recorded
  // True: reports a peer's failure to the agent. False inside a group that reports it itself.
  bool reports_failures = true;
  int known_as = -1;  // the rank in error texts, if this group is part of another; -1: `rank`
  int job_rank = -1;  // this rank's number in the job, for its agent; -1: the one in texts

  int in_job() const noexcept { return job_rank >= 0 ? job_rank : known_as >= 0 ? known_as : rank; }

  // Shared memory. --------------------------------------------------------------------------------
  Ref<SegmentLease> segment{};  // for one group; null: a new one

  // TCP. ------------------------------------------------------------------------------------------
  std::string iface{};  // interface, address or network to listen on; empty: see leaves_host
  // True if ranks on other hosts must reach this one. False: without iface, listen on loopback
  // only.
  bool leaves_host = false;
  // Without iface, and with several addresses: the one towards this host comes first. Empty: not
  // known.
  std::string route_to{};
  int lanes = 0;            // data sockets to each peer, the same on all ranks; 0: by group size
  Plan plan{};              // picks the algorithms; rank 0's counts for all
  Ref<TcpEngine> engine{};  // from make_tcp_engine(); null: a new one
};

Deadline connect_deadline(const GroupOptions& options);
// Throws what check_making() throws, and kPeerFailed if the rank's process has ended.
void check_still_making(const GroupOptions& options, const Identity& who);
// Clears the options for making one group, so that another group can be made from the rest.
void forget_connecting(GroupOptions& options);
// Throws kInvalidArgument for an invalid name.
void check_group_name(const std::string& name);
// Throws kInvalidArgument for an invalid rank, size or name, or a missing store.
void check_group(const GroupOptions& options);

}  // namespace dl::collectives
