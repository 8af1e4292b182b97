// Chooses one of a rank's addresses. They are tried with a short delay between them (RFC 8305), and
// the first at which this rank authenticates itself wins. An address at which no process answers,
// or another process does, costs at most a quarter of a second.
//
// Any thread.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/base/deadline.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

struct WayOptions {
  // True if the rank has listened already: refused at all addresses, it has ended. An address that
  // takes the connection is the right one, though the rank may answer late.
  bool has_listened = false;
  // Readable once the rank's process has ended; -1: it is not watched. The call then throws
  // kPeerFailed.
  int gone_fd = -1;
  // Called twice a second while the rank does not answer; what it throws ends the call.
  std::function<void()> check{};
};

// `ways`: numeric addresses, the preferred one first; at least one. `rank`: the rank that must
// answer; `who` names it in texts. All connections are closed again, because several may have been
// authenticated, and the other side may have seen any of them first. So the purpose in `hello`
// should be one whose connections the other side drops. If all addresses refuse for good, throws
// with the first address's kind, and with what happened at each address in the text. Throws
// kTimeout at the deadline.
Endpoint find_way(std::span<const Endpoint> ways, int rank, const std::string& who,
                  const Hello& hello, const JobKey& key, Deadline deadline,
                  const WayOptions& options = {});

// Like find_way(), but keeps the authenticated connection and closes only the others. For a service
// that does not count its connections.
struct Way {
  Endpoint endpoint;
  Connection connection;
};
Way connect_by_a_way(std::span<const Endpoint> ways, int rank, const std::string& who,
                     const Hello& hello, const JobKey& key, Deadline deadline,
                     const WayOptions& options = {});

}  // namespace dl::rendezvous
