// Data that a kernel finds wrong: an index that is out of range, a class or a probability that is
// none.
//
// A kernel cannot throw, and a trap would end the process's use of the device. It writes the first
// such value into host memory of the device instead, and goes on with zeros or NaN; the next wait
// for the device throws kIndex (kInvalidArgument for a probability), with the operation's name, the
// position and the value.
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
  double probability;
  bool of_probability;  // which of the two kinds it is
};

struct FaultPlace {
  Fault* record;
  int op;
};

namespace fault {

#if defined(__CUDACC__)
// Writes the record, unless an earlier fault stands there: fill(record) says what was found.
template <typename Fill>
__device__ void write_first(const FaultPlace& place, std::int64_t position, const Fill& fill) {
  Fault* const record = place.record;
  // Device scope is enough, as the host reads only after a wait. Over PCIe, an atomic operation of
  // system scope on host memory is not allowed.
  if (atomicCAS(&record->state, 0U, 1U) != 0U) return;
  record->op = place.op;
  record->position = position;
  fill(*record);
  __threadfence_system();
  record->state = 2U;
}

// Element `position` of an operation's index argument is `value`, wanted one of [0, limit).
__device__ inline void report(const FaultPlace& place, std::int64_t position, std::int64_t value,
                              std::int64_t limit) {
  write_first(place, position, [&](Fault& record) {
    record.value = value;
    record.limit = limit;
    record.of_probability = false;
  });
}

// Element `position` is `value`, wanted a probability.
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
