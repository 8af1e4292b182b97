// Whether two nodes that join at one endpoint belong to one job. A job without a name of its own
// (--rdzv-id) is known by its number of nodes and by the program that it runs. Included by .cc
// files only, since Join is Protobuf's.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

// Why `node` cannot be a node of the job that `job` is a node of: one sentence that quotes both. No
// value: it can.
std::optional<std::string> why_another_job(const dlrun::rendezvous::Join& job,
                                           const dlrun::rendezvous::Join& node);

// Whether their lines differ, and the user has not said by a name that they are one job.
bool may_be_another_job(const dlrun::rendezvous::Join& job, const dlrun::rendezvous::Join& node);

// The node's line, cut to a length that a person reads.
std::string quoted_line(const dlrun::rendezvous::Join& node);

}  // namespace dl::rendezvous
