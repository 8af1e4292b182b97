// BareRing: measures TCP without dlrun. In a ring of plain sockets, every rank sends to its right
// neighbour and at the same time receives from its left one. It moves 2 (p - 1) / p of the buffer's
// bytes, the minimum for an all_reduce. No frames, reduction or recorder.
//
// One thread.
#pragma once

#include <chrono>

#include "collectives/api/process_group.h"
#include "collectives/bench/operation/operation.h"
#include "collectives/waiting/wait_policy.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::bench {

class BareRing {
 public:
  // Collective: every rank of the group calls it. If the ranks are on several hosts, the hosts'
  // names must resolve. `timeout` is for connecting and for each exchange. Throws kInvalidArgument
  // if the group is not over TCP or has one rank, kConnection, kTimeout.
  BareRing(ProcessGroup& group, std::chrono::nanoseconds timeout);

  // Sends and receives at the same time, and blocks; the returned Work is over. If the buffers are
  // shorter than the bytes to be sent, it starts again at their beginning. Throws kTimeout and
  // kConnection with the neighbour's rank.
  Ref<Work> exchange(const TimedCall& call);

 private:
  int rank_;
  int size_;
  std::chrono::nanoseconds timeout_;  // of an exchange
  WaitPolicy policy_{};
  UniqueFd right_;
  UniqueFd left_;
};

}  // namespace dl::collectives::bench
