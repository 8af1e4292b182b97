// Agreement on a flag between ranks that may no longer be able to talk to each other: after an
// error, say, on whether the last step counts.
//
// It needs the job's store and no group, and answers although ranks are missing: whoever has waited
// long enough proposes what it has seen, the first proposal is the answer, and every rank reads the
// same one, also a rank that comes late. A name is used once (put the step's number into it).
// Thread-safety: the store's.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/store.h"

namespace dl::collectives {

struct Agreement {
  bool flag = false;           // of all ranks that came in time, "and"
  std::vector<int> missing{};  // the others, which have no say; ascending
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
