// Writes a recording as trace events for chrome://tracing and https://ui.perfetto.dev.
//
// Each rank is a process of the trace, and times are those of the system's clock, so that files of
// several ranks can be opened together. As in PyTorch's traces, "ts" counts from
// "baseTimeNanoseconds", the last multiple of 7,889,238 s since 1970: recordings that begin in one
// such quarter of a year have the same base. Thread-safety: any thread may call.
#pragma once

#include <string>

#include "core/profiler/recording.h"

namespace dl::profiler {

struct TraceOptions {
  int rank = 0;
  int world_size = 1;
};
// Reads RANK and WORLD_SIZE; 0 and 1 if they are not set.
TraceOptions trace_options();

// Returns the file's content: {"traceEvents": [...], ...}.
std::string chrome_trace(const Recording& recording, const TraceOptions& options);

}  // namespace dl::profiler
