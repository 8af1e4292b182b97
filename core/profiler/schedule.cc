#include "core/profiler/schedule.h"

#include <string_view>

#include "core/base/error.h"

namespace dl::profiler {

Schedule schedule(const ScheduleOptions& options) {
  const auto require = [](std::string_view name, std::int64_t value, std::int64_t least) {
    DL_CHECK(value >= least, kInvalidArgument, "schedule: {} is {}, wanted at least {}", name,
             value, least);
  };
  require("wait", options.wait, 0);
  require("warmup", options.warmup, 0);
  require("active", options.active, 1);
  require("repeat", options.repeat, 0);
  require("skip_first", options.skip_first, 0);
  return [o = options](std::int64_t step) {
    DL_CHECK(step >= 0, kInvalidArgument, "schedule: step is {}, wanted at least 0", step);
    if (step < o.skip_first) return ProfilerAction::kNone;
    step -= o.skip_first;
    if (o.skip_first_wait) step += o.wait;
    const std::int64_t cycle = o.wait + o.warmup + o.active;
    if (o.repeat > 0 && step / cycle >= o.repeat) return ProfilerAction::kNone;
    const std::int64_t place = step % cycle;
    if (place < o.wait) return ProfilerAction::kNone;
    if (place < o.wait + o.warmup) return ProfilerAction::kWarmup;
    return place < cycle - 1 ? ProfilerAction::kRecord : ProfilerAction::kRecordAndSave;
  };
}

}  // namespace dl::profiler
