// The key of a job whose dlruns srun has started one a node (`srun dlrun ...`), without a folder
// that the nodes share: the first node makes it, and gives it to all who connect, sealed by MUNGE.
// Only processes of the same user on the cluster's nodes can open it.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "core/base/unique_fd.h"
#include "launcher/slurm/allocation.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/net/socket.h"

namespace dl::launcher {

// On the first node.
class StepKey {
 public:
  // Before any thread exists. `life`: how long other nodes may ask. Throws Error with a sentence.
  StepKey(const SlurmStep& step, std::chrono::seconds life);
  ~StepKey();
  StepKey(const StepKey&) = delete;
  StepKey& operator=(const StepKey&) = delete;

  const rendezvous::JobKey& key() const { return key_; }
  // Gives it out, in a thread of its own, until this object's end.
  void serve();

 private:
  void run();

  rendezvous::JobKey key_;
  rendezvous::Listener listener_;
  std::string sealed_;
  UniqueFd wake_;
  std::thread thread_;
};

// On the other nodes. Waits for the first one until `patience` is over. Throws Error.
rendezvous::JobKey fetch_step_key(const SlurmStep& step, std::chrono::milliseconds patience);

}  // namespace dl::launcher
