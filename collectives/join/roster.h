// Roster: exchanges what the ranks must know of each other to make a group. Each rank writes a
// record into the job's store, under `place`/RANK, and reads the records of all others.
//
// A record is text, one "name=value" a line (docs/protocol.md). Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/join/group_options.h"
#include "core/base/deadline.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// A rank's record.
struct Record {
  std::uint32_t version = 0;  // of the backend's protocol
  int size = 0;               // of the world, as this rank knows it
  std::uint64_t generation = 0;
  int lanes = 0;          // data sockets to each peer, if the backend has them
  std::string address{};  // on which it listens
  std::string offer{};    // a line for the choice of a backend
  std::string plan{};     // in one line (algorithms/plan.h), if the backend uses one
  Identity who{};

  std::string text() const;
  // Reads the common fields, and ignores fields of later versions: the common ones are enough to
  // name the rank in an error.
  static Record parse(std::string_view text, int rank);
};

struct RosterOptions {
  rendezvous::Store* store = nullptr;
  std::string place{};  // "group/world"
  std::string group{};  // for texts
  int rank = 0;
  int size = 1;
  std::chrono::nanoseconds timeout{};
  // True if every rank calls announce() before it waits. Then a rank whose process ends is named
  // within a second, if it runs on this host and in this PID namespace. For stores that neither a
  // launcher nor a server watches.
  bool all_announced = false;
  // The ranks' numbers in the job. Nullopt: the same as here, unless this group is part of another;
  // empty: not known.
  std::optional<std::vector<int>> job_ranks{};
  // See GroupOptions.
  std::function<void(int rank)> check_absent{};
};
// The options for the group's ranks to exchange records at `place` in its store.
RosterOptions roster_of(const GroupOptions& options, std::string place);

// This process, as errors name it. An empty `node` means that the kernel which runs it is the node.
Identity this_process(const GroupOptions& options);
Identity this_process(int rank, const std::string& node);
// The key of a group without a job key: all zeros. It proves nothing, but the handshake still makes
// its other checks.
rendezvous::JobKey open_key();

void publish(const RosterOptions& options, const Record& own, Deadline deadline);
// Writes this rank's identity under "here/RANK".
void announce(const RosterOptions& options, Deadline deadline);
// Waits for the value of a key that `rank` sets. A long wait is logged with the rank's number.
// Throws kTimeout if the value does not come by the deadline and, with all_announced, kPeerFailed
// if a rank has ended.
std::string await_value(const RosterOptions& options, const Identity& self, const std::string& key,
                        int rank, Deadline deadline);
// Waits for a rank's record like await_value(), and throws kMismatch if its protocol version, world
// size, generation or number of sockets differs from this rank's.
Record await_record(const RosterOptions& options, const Record& own, int rank, Deadline deadline);

// While ranks wait for connections: how often they check whether a peer has ended.
inline constexpr std::chrono::milliseconds kAliveLook{500};
// Throws kPeerFailed if the rank's process has ended, if it ran in this host's PID namespace.
void check_alive(const std::string& group, const Identity& who);

}  // namespace dl::collectives
