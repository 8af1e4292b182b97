// Agreement on a flag between ranks that may no longer be able to communicate. After an error, for
// example, they agree on whether the last step counts.
//
// It needs the job's store and no group, and gives an answer even if ranks are missing. A rank
// whose patience ends proposes the "and" of the flags that it has seen. The first proposal is the
// answer for every rank, even for one that comes late. A name is used once, so put the step's
// number into it. Thread-safety: the store's.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/store.h"

namespace dl::collectives {

struct Agreement {
  bool flag = false;           // "and" over all ranks that came in time
  std::vector<int> missing{};  // the other ranks, whose flags do not count; ascending
};

struct AgreeOptions {
  std::string_view name;  // 1 to 128 bytes
  int rank = 0;
  int size = 1;
  bool flag = false;
};

// Returns when all ranks have voted, or once `patience` has passed. `deadline` limits the calls of
// the store. Throws kInvalidArgument, and what the store throws.
Agreement agree(rendezvous::Store& store, const AgreeOptions& options, Deadline patience,
                Deadline deadline);

}  // namespace dl::collectives
