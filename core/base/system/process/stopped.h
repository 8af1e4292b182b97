// Time in which this process did not run although it waited: SIGSTOP, Ctrl-Z, a debugger, a paused
// machine. It does not count as waiting; Deadline (deadline.h) and Patience leave it out.
//
// A process that waits for others calls watch_for_stops(): a thread then looks at the clock four
// times a second, and a gap of more than a second between two looks is taken for a stop. A machine
// so loaded that no thread of the process runs for a second is the same. Before that call, and in a
// forked child, nothing is taken for a stop, since waits of this process may be long and silent.
//
// Thread-safety: any thread.
#pragma once

#include <chrono>

namespace dl {

// Harmless when repeated. Throws kIo if the system gives no thread; the next call tries
// again.
void watch_for_stops();

// What was noticed until now, in all; never shrinks. Costs two loads.
std::chrono::nanoseconds stopped_time(std::chrono::steady_clock::time_point now) noexcept;

}  // namespace dl
