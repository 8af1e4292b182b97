// JobVerdict: the verdict on a whole job, made of what its nodes report. The first node that fails
// counts, and what it said of a failure before which the nodes were to begin again.
//
// A state machine without connections or clocks. One thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_port.h"
#include "launcher/remote/frames/messages.h"

namespace dl::launcher::remote {

class JobVerdict {
 public:
  explicit JobVerdict(std::size_t nodes) : restarts_(nodes) {}

  // nullopt: no node has failed for good.
  const std::optional<Verdict>& get() const { return verdict_; }
  // The job fails for this reason, unless another reason is known already.
  void fail(Verdict verdict);
  // A node has decided that no generation follows. One node may report more than another.
  void decided(Verdict verdict);
  // A further line for the user.
  void add(const std::string& line) { verdict_->page.push_back(line); }

  // A node begins again. Returns true once every node does.
  bool begins_again(int node, BeginsAgain news);
  // Node 0's message, once; nullopt: there is none, or the job has failed since.
  std::optional<BeginsAgain> take_restart();

 private:
  void keep(Verdict verdict);

  std::optional<Verdict> verdict_;
  std::optional<BeginsAgain> next_;  // node 0's message
  std::vector<int> restarts_;        // number of the last restart that each node has begun
};

}  // namespace dl::launcher::remote
