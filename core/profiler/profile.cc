#include "core/profiler/profile.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "core/profiler/recorder.h"
#include "core/profiler/report/text.h"
#include "core/profiler/report/trace.h"

namespace dl::profiler {
namespace {

// Whether a Profile of this process is between start() and stop().
constinit std::atomic<bool> is_taken{false};

std::uint32_t bits_of(const ProfileOptions& options) noexcept {
  return kRecordSpans | (options.record_shapes ? kRecordShapes : 0U) |
         (options.profile_memory ? kRecordMemory : 0U) | (options.with_flops ? kRecordFlops : 0U);
}

bool records(ProfilerAction action) noexcept {
  return action == ProfilerAction::kRecord || action == ProfilerAction::kRecordAndSave;
}

}  // namespace

Profile::Profile(ProfileOptions options) : options_(std::move(options)) {
  DL_CHECK(!options_.activities.empty(), kInvalidArgument,
           "Profile: activities is empty, wanted ProfilerActivity::kCPU");
  for (const ProfilerActivity activity : options_.activities) {
    DL_CHECK(activity == ProfilerActivity::kCPU, kNotImplemented,
             "Profile: times of GPUs are not recorded yet; leave ProfilerActivity::kCUDA out");
  }
}

Profile::~Profile() {
  if (is_started_) drop();
}

ProfilerAction Profile::action_of(std::int64_t step) const {
  return options_.schedule ? options_.schedule(step) : ProfilerAction::kRecord;
}

void Profile::start() {
  DL_CHECK(!is_started_, kInvalidArgument, "Profile: start() of a profile that was started");
  const ProfilerAction first = action_of(step_num_);
  DL_CHECK(!is_taken.exchange(true), kInvalidArgument,
           "Profile: another profile of this process is recording; stop() it first");
  is_started_ = true;
  enter(first);
  begin_step();
}

void Profile::stop() {
  DL_CHECK(is_started_, kInvalidArgument, "Profile: stop() of a profile that was not started");
  const bool is_ready = records(action_);
  try {
    if (action_ != ProfilerAction::kNone) finish(is_ready);
  } catch (...) {  // no memory for the recording
    drop();
    throw;
  }
  is_started_ = false;
  step_.reset();  // after finish(), so that a step that is cut ends with the recording
  is_taken = false;
  action_ = ProfilerAction::kNone;
  if (is_ready) call_on_trace_ready();
}

void Profile::step() {
  DL_CHECK(is_started_, kInvalidArgument, "Profile: step() of a profile that was not started");
  step_.reset();
  const ProfilerAction before = action_;
  const ProfilerAction next = action_of(++step_num_);
  if (before == ProfilerAction::kRecordAndSave || (records(before) && !records(next))) {
    finish(before == ProfilerAction::kRecordAndSave);
    action_ = ProfilerAction::kNone;
    if (before == ProfilerAction::kRecordAndSave) {
      try {
        call_on_trace_ready();
      } catch (...) {
        enter(next);
        begin_step();
        throw;
      }
    }
  }
  enter(next);
  begin_step();
}

void Profile::call_on_trace_ready() {
  if (!options_.on_trace_ready) return;
  struct Count {
    ~Count() { ++cycle; }
    std::int64_t& cycle;
  } const counted{cycle_};  // also if it throws: the next recording is another one
  options_.on_trace_ready(*this);
}

// Changes action_ to `next`: starts or drops a recording if that is needed.
void Profile::enter(ProfilerAction next) {
  const bool goes_on = records(action_) ? records(next) : action_ == next;
  if (!goes_on && next == ProfilerAction::kNone) {
    stop_recording();  // a schedule whose warm-up leads to nothing
  } else if (!goes_on) {
    start_recording(bits_of(options_));
  }
  action_ = next;
}

void Profile::finish(bool is_ready) {
  Recording recording = stop_recording();
  if (is_ready) ready_ = std::move(recording);
}

void Profile::drop() noexcept {
  step_.reset();
  is_started_ = false;
  try {
    if (action_ != ProfilerAction::kNone) stop_recording();
  } catch (...) {  // no memory for a result that is dropped anyway
  }
  action_ = ProfilerAction::kNone;
  is_taken = false;
}

void Profile::begin_step() {
  if (options_.schedule)
    step_.emplace("ProfilerStep#" + std::to_string(step_num_), Category::kStep);
}

const Recording& Profile::recording() const {
  DL_CHECK(ready_.has_value(), kInvalidArgument,
           "Profile: nothing is recorded yet; ask after stop(), or in on_trace_ready");
  return *ready_;
}

Averages Profile::key_averages(const KeyAveragesOptions& options) const {
  DL_CHECK(!options.group_by_input_shape || options_.record_shapes, kInvalidArgument,
           "key_averages: group_by_input_shape wants a profile with record_shapes = true");
  return profiler::key_averages(recording(), options.group_by_input_shape);
}

Breakdown Profile::breakdown() const {
  return profiler::breakdown(recording());
}

void Profile::export_chrome_trace(const std::string& path) const {
  write_file(path, chrome_trace(recording(), trace_options()));
}

std::function<void(Profile&)> trace_handler(std::string folder) {
  return [folder = std::move(folder)](Profile& profile) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    DL_CHECK(!error, kIo, "profiler: cannot make the folder {}: {}", quoted_name(folder),
             error.message());
    const std::string cycle = profile.cycle() == 0 ? "" : fmt::format(".{}", profile.cycle());
    profile.export_chrome_trace(
        fmt::format("{}/rank{}{}.trace.json", folder, trace_options().rank, cycle));
  };
}

}  // namespace dl::profiler
