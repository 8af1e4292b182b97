// Time in which this process was stopped: SIGSTOP, Ctrl-Z, a debugger, a paused machine. Deadline
// (deadline.h) and Patience do not count it as waiting.
//
// A process that waits for others calls watch_for_stops(): a thread then looks at the clock four
// times a second, and a gap of more than a second between two looks counts as a stop. So does a
// machine so loaded that no thread of the process runs for a second. Before that call, and in a
// forked child, no stops are detected.
//
// Thread-safety: any thread.
#pragma once

#include <chrono>

namespace dl {

// Harmless when repeated. Throws kIo if the system gives no thread; the next call tries again.
void watch_for_stops();

// The time that this process has been stopped until `now`, which must be the current time; never
// decreases. Usually costs two loads; locks a mutex when it finds a stop.
std::chrono::nanoseconds stopped_time(std::chrono::steady_clock::time_point now) noexcept;

// A module contains its own copy of this code. It calls this once, first, with its program's
// stopped_time(): a process has one thread that looks for stops.
void use_stopped_time(decltype(&stopped_time) program) noexcept;

}  // namespace dl
