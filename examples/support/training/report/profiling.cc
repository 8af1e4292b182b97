#include "examples/support/training/report/profiling.h"

#include "core/base/error.h"

namespace dl::examples {
namespace {

// Leaves out the first steps, which touch their memory for the first time.
constexpr profiler::ScheduleOptions kSteps{.warmup = 2, .active = 100, .repeat = 1};
constexpr int kRows = 15;

}  // namespace

void Profiling::start(std::int64_t steps) {
  if (!options_.profile) return;
  DL_CHECK(
      steps > kSteps.warmup, kInvalidArgument,
      "--profile records from step {} on, and this run has {}; give it more --epochs, or leave "
      "--profile out",
      kSteps.warmup + 1, steps);
  profile_ = std::make_unique<profiler::Profile>(
      profiler::ProfileOptions{.schedule = profiler::schedule(kSteps)});
  profile_->start();
}

void Profiling::step() {
  if (profile_) profile_->step();
}

void Profiling::stop() {
  if (profile_) profile_->stop();
}

void Profiling::finish(Reporter& reporter) const {
  if (!profile_) return;
  reporter.note(
      profile_->key_averages().table({.sort_by = "self_cpu_time_total", .row_limit = kRows}) +
      profile_->breakdown().str());
  if (!options_.profile_dir.empty()) profiler::trace_handler(options_.profile_dir)(*profile_);
}

}  // namespace dl::examples
