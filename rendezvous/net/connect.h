// The client's way into a job: connect, prove, and be told in one sentence where that fails.
//
// Any thread.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/deadline.h"
#include "rendezvous/net/address.h"
#include "rendezvous/net/handshake.h"
#include "rendezvous/net/job_key.h"

namespace dl::rendezvous {

struct ProveOptions {
  // Keep trying until the deadline if nobody listens yet, the connection is lost on the way, or
  // the server has too many unproved connections; any other refusal is final.
  bool retry = true;
  // As in ConnectOptions.
  int hangup_fd = -1;
  bool is_turn = false;
  // Where the deadline is only a turn's: how long to wait for the answer to a proof. The server may
  // have accepted it and count this client as there, so that another attempt would be refused.
  std::optional<Deadline> acceptance{};
  // What the connection is for, as a person says it: "the rendezvous"; empty: the purpose.
  std::string_view goal{};
};

// A proved connection; its `peer` is what the server said of itself. Throws with the address and
// the purpose in the text:
//   kAuthentication  the other side has another key, or does not speak this protocol
//   kMismatch        another job, generation or version of dlrun; nobody serves the purpose there
//   kConnection, kTimeout, kNotFound  it could not be reached
//   kAborted         hangup_fd has hung up
// "connect to node1:29500 for 'store': it is at generation 4, this process at generation 3; ..."
Connection connect_and_prove(const Endpoint& endpoint, const Hello& hello, const JobKey& key,
                             Deadline deadline, const ProveOptions& options = {});

// Connects to a local socket's name (local_socket.h); its other end must run as this user.
Connection connect_local_and_prove(std::string_view name, const Hello& hello, const JobKey& key,
                                   Deadline deadline);

}  // namespace dl::rendezvous
