// Data that a kernel finds wrong: an index that is out of range, a class that is none.
//
// A kernel cannot throw, and a trap would end the process's use of the device. It writes the first
// such value into host memory of the device instead, and goes on with zeros or NaN; the next wait
// for the device throws kIndex, with the operation's name, the position and the value.
#pragma once

#include <cstdint>

#include "core/tensor/half.h"

namespace dl::cuda {

// Pinned host memory that the device writes, one a device. `state`: 0 nothing, 1 being written,
// 2 written.
struct Fault {
  unsigned state;
  int op;  // the Op's number
  std::int64_t position;
  std::int64_t value;
  std::int64_t limit;
};

struct FaultPlace {
  Fault* record;
  int op;
};

namespace fault {

#if defined(__CUDACC__)
// Element `position` of an operation's index argument is `value`, wanted one of [0, limit).
__device__ inline void report(const FaultPlace& place, std::int64_t position, std::int64_t value,
                              std::int64_t limit) {
  Fault* const record = place.record;
  if (atomicCAS_system(&record->state, 0U, 1U) != 0U) return;
  record->op = place.op;
  record->position = position;
  record->value = value;
  record->limit = limit;
  __threadfence_system();
  record->state = 2U;
}
#endif

}  // namespace fault
}  // namespace dl::cuda
