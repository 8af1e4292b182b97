// The first messages to the members of a complete generation: the generation itself, and a warning
// if their command lines differ. Nothing here changes nodes or ranks. Included by .cc files only,
// because messages are Protobuf's.
#pragma once

#include <cstdint>

#include "rendezvous/membership/nodes/outbox.h"

namespace dl::rendezvous {

// Sends each member its generation: the number and ranks, the address at which the member reaches
// node 0, and all members. Call it after NodeTable::begin_generation(). `joined`: the members in
// the order in which they joined. `job`: the facts that define the job. `moves_to`: as in
// Membership::Options.
void send_generation(const NodeTable& nodes, const NodeTable::Ids& joined, int number,
                     const dlrun::rendezvous::Join& job, std::uint16_t moves_to, Outbox& out);
// Warns each node whose line differs from node 0's, and node 0 once.
void warn_of_other_lines(const NodeTable& nodes, Outbox& out);

}  // namespace dl::rendezvous
