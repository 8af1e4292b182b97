// Faults: invalid data that a kernel finds, such as an index or class out of range or a probability
// outside [0, 1].
//
// A kernel cannot throw, and after a trap the process could no longer use the device. Instead it
// writes the first such value to pinned host memory and continues with zeros or NaN. The next wait
// for the device throws kIndex (kInvalidArgument for a probability) with the operation's name, the
// position and the value.
#pragma once

#include <cstdint>

#include "core/tensor/half.h"

namespace dl::cuda {

// A record in pinned host memory, one for each device. `state`: 0 nothing, 1 being written, 2
// written.
struct Fault {
  unsigned state;
  int op;  // the Op's number
  std::int64_t position;
  std::int64_t value;
  std::int64_t limit;
  double probability;
  bool of_probability;  // true: a probability; false: an index or class
};

struct FaultPlace {
  Fault* record;
  int op;
};

namespace fault {

#if defined(__CUDACC__)
// Calls fill(record) to write the record, unless it already has an earlier fault.
template <typename Fill>
__device__ void write_first(const FaultPlace& place, std::int64_t position, const Fill& fill) {
  Fault* const record = place.record;
  // Device scope is enough, because the host reads only after a wait. System-scope atomics on host
  // memory are not supported over PCIe.
  if (atomicCAS(&record->state, 0U, 1U) != 0U) return;
  record->op = place.op;
  record->position = position;
  fill(*record);
  __threadfence_system();
  record->state = 2U;
}

// Reports that element `position` of an operation's index argument is `value`, outside [0, limit).
__device__ inline void report(const FaultPlace& place, std::int64_t position, std::int64_t value,
                              std::int64_t limit) {
  write_first(place, position, [&](Fault& record) {
    record.value = value;
    record.limit = limit;
    record.of_probability = false;
  });
}

// Reports that element `position` is `value`, outside [0, 1].
__device__ inline void report_probability(const FaultPlace& place, std::int64_t position,
                                          double value) {
  write_first(place, position, [&](Fault& record) {
    record.probability = value;
    record.of_probability = true;
  });
}
#endif

}  // namespace fault
}  // namespace dl::cuda
