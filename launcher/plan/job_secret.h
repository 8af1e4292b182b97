// The job's key, from the file, the environment or the user's own.
#pragma once

#include <string>

#include "rendezvous/net/handshake/job_key.h"

namespace dl::launcher {

// One node: a fresh key. Several nodes: the key in `key_file`, else the environment's, else the
// user's own, ~/.config/dlrun/key. That file is made at its first use, and every node that shares
// the home directory has it.
// Throws Error with one sentence.
rendezvous::JobKey job_secret(int nnodes, const std::string& key_file);

}  // namespace dl::launcher
