// Recorder: collects the spans (span.h) of all threads of this process during a recording. Profile
// (profile.h) starts and stops recordings.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "core/profiler/recording.h"

namespace dl::profiler {

// Records a finished activity that ran beside the calling thread, a collective for example.
void record_async(std::string_view name, Category category,
                  std::chrono::steady_clock::time_point begin,
                  std::chrono::steady_clock::time_point end) noexcept;

// Starts a recording, and drops one that is under way. `what`: the bits of its contents.
void start_recording(std::uint32_t what) noexcept;
// Ends the recording and returns it. Throws std::bad_alloc.
Recording stop_recording();

}  // namespace dl::profiler
