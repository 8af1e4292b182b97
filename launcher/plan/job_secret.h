// The key of a job, from where the user put it.
#pragma once

#include <string>

#include "rendezvous/net/job_key.h"

namespace dl::launcher {

// One node: a fresh key. Several: the key in `key_file`, else that of the environment, else the
// user's own, ~/.config/dlrun/key, which is made at its first use: it is there on every node that
// shares the home directory.
// Throws Error with one sentence.
rendezvous::JobKey job_secret(int nnodes, const std::string& key_file);

}  // namespace dl::launcher
