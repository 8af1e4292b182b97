// Which of a rank's addresses to use: they are tried one a little after the other (RFC 8305), and
// the first behind which that rank proves itself wins. One that nobody answers at, that belongs to
// another host too, or that somebody else listens on, costs a quarter of a second at most.
//
// Any thread.
#pragma once

#include <span>
#include <string>

#include "core/base/deadline.h"
#include "rendezvous/net/address.h"
#include "rendezvous/net/handshake.h"
#include "rendezvous/net/job_key.h"

namespace dl::rendezvous {

// `ways`: numeric, the preferred one first; at least one. `rank`: who must answer; `who` names it
// in texts. All connections are closed again: several may have been proved, and which of them the
// other side saw first is nobody's choice; `hello`'s purpose should be one whose connections it
// drops. Throws, with what happened at each address in the text, the kind of the first where all
// are refused for good, kTimeout at the deadline.
Endpoint find_way(std::span<const Endpoint> ways, int rank, const std::string& who,
                  const Hello& hello, const JobKey& key, Deadline deadline);

}  // namespace dl::rendezvous
