// What TCP costs without us: a ring of plain sockets, over which every rank sends to its right
// neighbour and receives from its left one at the same time what an all_reduce of that size must
// carry, 2 (p - 1) / p of its bytes. No frames, no reduction, no recorder.
//
// One thread.
#pragma once

#include <chrono>

#include "collectives/bench/operation.h"
#include "collectives/process_group.h"
#include "collectives/wait_policy.h"
#include "core/base/unique_fd.h"

namespace dl::collectives::bench {

class BareRing {
 public:
  // Collective: every rank of the group calls it. On several hosts their names must resolve.
  // `timeout` is for this and for each exchange.
  // Throws kInvalidArgument where the group is not over TCP or has one rank, kConnection, kTimeout.
  BareRing(ProcessGroup& group, std::chrono::nanoseconds timeout);

  // Both ways at once; the Work is over. The buffers are gone through again where they are shorter
  // than what is carried. Throws kTimeout and kConnection with the neighbour's rank.
  Ref<Work> exchange(const Call& call);

 private:
  int rank_;
  int size_;
  std::chrono::nanoseconds timeout_;  // of an exchange
  WaitPolicy policy_{};
  UniqueFd right_;
  UniqueFd left_;
};

}  // namespace dl::collectives::bench
