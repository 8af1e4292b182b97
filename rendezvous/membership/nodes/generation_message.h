// What the members of a complete generation are told first: the generation itself, and a warning if
// their command lines differ. The nodes and their ranks are given, and nothing here changes them.
// Included by .cc files only, because messages are Protobuf's.
#pragma once

#include <cstdint>

#include "rendezvous/membership/nodes/outbox.h"

namespace dl::rendezvous {

// Sends each member its generation: number and ranks, the address at which it reaches node 0, and
// all members. To be called after NodeTable::begin_generation(). `joined`: the members in the order
// in which they joined. `job`: the facts that identify it. `moves_to`: as in Membership::Options.
void send_generation(const NodeTable& nodes, const NodeTable::Ids& joined, int number,
                     const dlrun::rendezvous::Join& job, std::uint16_t moves_to, Outbox& out);
// Warns each node whose line differs from node 0's, and node 0 once.
void warn_of_other_lines(const NodeTable& nodes, Outbox& out);

}  // namespace dl::rendezvous
