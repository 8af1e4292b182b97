// The client's connection to a job: connects, authenticates, and reports a failure in one sentence.
//
// Any thread.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/deadline.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

struct ProveOptions {
  // Keep trying until the deadline if no server listens yet, the connection is lost on the way, or
  // the server has too many unauthenticated connections; any other refusal is final.
  bool retry = true;
  // See ConnectOptions.
  int hangup_fd = -1;
  bool is_turn = false;
  // If is_turn: the deadline for the answer to a proof. The server may have accepted the proof and
  // count this client as connected; it would then refuse another attempt.
  std::optional<Deadline> acceptance{};
  // What texts call the other side, for example "the rendezvous"; empty: they name the purpose.
  std::string_view goal{};
};

// Returns an authenticated connection; its `peer` is what the server said of itself. Throws with
// the address and the purpose in the text:
//   kAuthentication                   the other side has another key, or another protocol
//   kMismatch                         it has another job, generation or version of dlrun, or does
//                                     not serve the purpose
//   kConnection, kTimeout, kNotFound  the server could not be reached
//   kAborted                          hangup_fd has hung up
// "connect to node1:29500 for 'store': it is at generation 4, this process at generation 3; ..."
Connection connect_and_prove(const Endpoint& endpoint, const Hello& hello, const JobKey& key,
                             Deadline deadline, const ProveOptions& options = {});

// Connects to a local socket's name (local_socket.h); its server must run as this user.
Connection connect_local_and_prove(std::string_view name, const Hello& hello, const JobKey& key,
                                   Deadline deadline);

// Loads now what OpenSSL needs for the first handshake, which takes about 1 ms. For a process that
// has time to spare at its start.
void prepare_to_prove();

}  // namespace dl::rendezvous
