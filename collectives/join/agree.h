// Agreement on a flag between ranks that may no longer be able to communicate: after an error, for
// example, on whether the last step counts.
//
// It needs the job's store and no group, and answers even if ranks are missing. A rank whose
// patience ends proposes what it has seen; the first proposal is the answer, and every rank reads
// it, even one that comes late. A name is used once (put the step's number into it). Thread-safety:
// the store's.
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

// Returns at once when all ranks have come, else once `patience` has passed. `deadline` is for the
// store itself. Throws kInvalidArgument, and what the store throws.
Agreement agree(rendezvous::Store& store, const AgreeOptions& options, Deadline patience,
                Deadline deadline);

}  // namespace dl::collectives
