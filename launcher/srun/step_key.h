// The key of a job of `srun dlrun ...`, one dlrun on each node, without a folder that the nodes
// share. The first node makes the key and gives it to every client, sealed by MUNGE: only processes
// of this user on the cluster's nodes can open it. If the first node has no MUNGE, it says so, and
// all nodes use the user's own file. It is in dlrun-srun, which dlrun executes (hand_over.cc).
#pragma once

#include <memory>

#include "launcher/cli/options.h"
#include "launcher/process/own_process.h"

namespace dl::launcher {

class KeyGiver {
 public:
  virtual ~KeyGiver() = default;
  // Gives out the key, in a thread of its own, until this object is destroyed.
  virtual void serve() = 0;
};

// Makes or fetches the key for job_secret(), if needs_step_key(). Returns the object that gives out
// the key on the first node, else null. To be called before any thread exists, and before `options`
// take effect. Throws Error with a sentence.
std::unique_ptr<KeyGiver> key_of_step(const Options& options, CommandLine line);

}  // namespace dl::launcher
