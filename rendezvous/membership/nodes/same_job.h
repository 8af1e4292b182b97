// Decides whether two nodes that join at one endpoint belong to one job. A job without a name
// (--rdzv-id) is recognised by its number of nodes and its program. Included by .cc files only,
// because Join is Protobuf's.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

// One sentence, quoting both, that says why `node` cannot belong to the job of the node `job`.
// Nullopt: it can.
std::optional<std::string> why_another_job(const dlrun::rendezvous::Join& job,
                                           const dlrun::rendezvous::Join& node);

// True if their command lines differ, and the user has not given both the same job name.
bool may_be_another_job(const dlrun::rendezvous::Join& job, const dlrun::rendezvous::Join& node);

// The node's line, cut to a readable length.
std::string quoted_line(const dlrun::rendezvous::Join& node);

}  // namespace dl::rendezvous
