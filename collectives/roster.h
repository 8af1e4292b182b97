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
};

// This process, as every error names it; an empty `node` is the host's name.
Identity this_process(const GroupOptions& options);
Identity this_process(int rank, const std::string& node);
// The key of a group that has none: no secret, but the same handshake with its checks.
rendezvous::JobKey open_key();

void publish(const RosterOptions& options, const Record& own, Deadline deadline);
// Waits for a rank's record, says for whom it waits, and throws kTimeout where it does not come,
// and kMismatch where it has another protocol version, world size, generation or number of sockets
// than this rank's.
Record await_record(const RosterOptions& options, const Record& own, int rank, Deadline deadline);

}  // namespace dl::collectives
