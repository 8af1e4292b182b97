// The key of a job whose dlruns srun has started one a node (`srun dlrun ...`), without a folder
// that the nodes share: the first node makes it, and gives it to all who connect, sealed by MUNGE.
// Only processes of the same user on the cluster's nodes can open it. If the first node has no
// MUNGE, it says so, and all use the user's own file. In dlrun-srun; dlrun executes that
// (hand_over.cc).
#pragma once

#include <memory>

#include "launcher/cli/options.h"
#include "launcher/process/own_process.h"

namespace dl::launcher {

class KeyGiver {
 public:
  virtual ~KeyGiver() = default;
  // Gives the key out, in a thread of its own, until this object's end.
  virtual void serve() = 0;
};

// Makes or fetches the key for job_secret(), if needs_step_key(). On the first node the result is
// what gives it out, else null. Before any thread exists, and before `options` are followed. Throws
// Error with a sentence.
std::unique_ptr<KeyGiver> key_of_step(const Options& options, CommandLine line);

}  // namespace dl::launcher
