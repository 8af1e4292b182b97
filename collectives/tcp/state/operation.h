// Operation: a collective or message of a TCP group, as the parts of its Core see it.
//
// The driver runs it, and its Ledger ends it. How a thread waits for it stands in core/work.h.
#pragma once

#include <utility>

#include "collectives/algorithms/execution/execution.h"
#include "collectives/waiting/pending/pending_work.h"

namespace dl::collectives::tcp {

class Operation : public PendingWork {
 public:
  // The wait begins now.
  Operation(const Call& call, std::chrono::nanoseconds timeout)
      : PendingWork("tcp", call, timeout) {
    waiting.begin(Deadline::Clock::now());
  }
};

class Collective : public Operation {
 public:
  Collective(const Call& call, std::chrono::nanoseconds timeout, Schedule schedule, int size)
      : Operation(call, timeout), execution(call, std::move(schedule), size) {}

  std::string_view algorithm() const noexcept override { return name_of(execution.algorithm()); }

  Execution execution;  // driver
};

// One send or recv.
using Message = MessageOf<Operation>;

}  // namespace dl::collectives::tcp
