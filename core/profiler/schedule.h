// Schedule: chooses the steps of a long run that are recorded, as torch.profiler.schedule does.
//
// The first skip_first steps are not recorded. Then cycles follow: `wait` steps that are not
// recorded, `warmup` steps whose recording is dropped, and `active` steps that are recorded. After
// each cycle, on_trace_ready gets the recording. There are `repeat` cycles; 0: until the end.
//
// Thread-safety: a schedule may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>

namespace dl::profiler {

enum class ProfilerAction : std::uint8_t { kNone, kWarmup, kRecord, kRecordAndSave };

struct ScheduleOptions {
  std::int64_t wait = 0;
  std::int64_t warmup = 0;
  std::int64_t active = 0;  // at least 1
  std::int64_t repeat = 0;
  std::int64_t skip_first = 0;
  bool skip_first_wait = false;  // the first cycle has no wait steps
};

// Returns what to do in a step, counted from 0.
using Schedule = std::function<ProfilerAction(std::int64_t step)>;

// Throws kInvalidArgument if `active` is less than 1 or another number less than 0.
Schedule schedule(const ScheduleOptions& options);

}  // namespace dl::profiler
