// Roster: how the ranks of a group that is being made learn of each other. Each writes a record
// into the job's store, under `place`/RANK, and reads those of all others.
//
// A record is text, one "name=value" a line (docs/protocol.md). Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/group_options.h"
#include "collectives/identity.h"
#include "core/base/deadline.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// What a rank says of itself.
struct Record {
  std::uint32_t version = 0;  // of the backend's protocol
  int size = 0;               // of the world, as this rank knows it
  std::uint64_t generation = 0;
  int lanes = 0;          // sockets a peer for data, where the backend has them
  std::string address{};  // where it listens
  std::string offer{};    // one line of what else it says
  std::string plan{};     // in one line (algorithms/plan.h), where the backend follows one
  Identity who{};

  std::string text() const;
  // A later version may write more; what it has in common is enough to refuse it by name.
  static Record parse(std::string_view text, int rank);
};

struct RosterOptions {
  rendezvous::Store* store = nullptr;
  std::string place{};  // "group/world"
  std::string group{};  // for texts
  int rank = 0;
  int size = 1;
  std::chrono::nanoseconds timeout{};
  // Every rank has called say_here(): one that has ended since is named within a second, where its
  // process can be seen. For stores that no launcher and no server watches over.
  bool all_say_here = false;
};

// This process, as every error names it; an empty `node` is the host's name.
Identity this_process(const GroupOptions& options);
Identity this_process(int rank, const std::string& node);
// The key of a group that has none: no secret, but the same handshake with its checks.
rendezvous::JobKey open_key();

void publish(const RosterOptions& options, const Record& own, Deadline deadline);
// Writes who this rank is under "here/RANK".
void say_here(const RosterOptions& options, Deadline deadline);
// The value of a key that `rank` sets. Waits for it, says for whom, and throws kTimeout if it does
// not come, and kPeerFailed if the rank has ended.
std::string await_value(const RosterOptions& options, const Identity& self, const std::string& key,
                        int rank, Deadline deadline);
// Waits for a rank's record as await_value() does, and throws kMismatch where it has another
// protocol version, world size, generation or number of sockets than this rank's.
Record await_record(const RosterOptions& options, const Record& own, int rank, Deadline deadline);

// While ranks wait for each other's connections: how often they look whether one has ended.
inline constexpr std::chrono::milliseconds kAliveLook{500};
// Throws kPeerFailed if the rank's process can be seen to have ended.
void check_alive(const std::string& group, const Identity& who);

}  // namespace dl::collectives
