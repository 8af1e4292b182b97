// Breakdown: how the thread that started the recording spent its time.
//
// Data is the time in which this thread waited for a batch or read one. Communication is the time
// in which it called collectives or waited for them. Computing is the rest.
//
// Ownership and thread-safety: plain values; any thread may read them.
#pragma once

#include <cstdint>
#include <string>

#include "core/profiler/recording.h"

namespace dl::profiler {

struct Breakdown {
  std::int64_t steps = 0;    // complete steps of Profile::step(); 0: the whole recording counts
  std::int64_t wall_ns = 0;  // of all steps together, as all times here
  std::int64_t computing_ns = 0;
  std::int64_t data_ns = 0;
  std::int64_t communication_ns = 0;
  // Time in which at least one asynchronous collective was under way.
  std::int64_t communication_under_way_ns = 0;

  // The means per step: "10 steps of 12.500ms: computing 11.000ms (88.00%), data 250.000us (2.00%),
  // communication 1.250ms (10.00%); collectives were under way for 5.000ms, 75.00% of it behind
  // other work".
  std::string str() const;
};

Breakdown breakdown(const Recording& recording);

}  // namespace dl::profiler
