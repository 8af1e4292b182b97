// Profile: records what a program does and reports it, as torch.profiler.profile.
//
//     profiler::Profile prof({.record_shapes = true});
//     prof.start();
//     {
//       const profiler::record_function span("model_inference");
//       model(x);
//     }
//     prof.stop();
//     std::cout << prof.key_averages().table({.sort_by = "self_cpu_time_total", .row_limit = 10});
//
// dlrun records these itself, on all threads: operations (named as in
// docs/reference/operations.md), nodes of a backward pass ("AddmmBackward0"), optimizers
// ("Optimizer.step#Adam.step"), batches ("enumerate(DataLoader)#Epoch.next"),
// DistributedDataParallel and collectives ("dlrun::all_reduce"). Times are wall times of CPU
// threads: an operation on a GPU counts until it is launched.
//
// A process has at most one started Profile at a time. A Profile that is destroyed while it records
// drops the recording. Thread-safety: one thread uses a Profile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/profiler/recording.h"
#include "core/profiler/report/averages.h"
#include "core/profiler/report/breakdown.h"
#include "core/profiler/schedule.h"

namespace dl::profiler {

enum class ProfilerActivity : std::uint8_t { kCPU, kCUDA };

class Profile;

struct ProfileOptions {
  // kCUDA is refused: times of GPUs are not recorded yet.
  std::vector<ProfilerActivity> activities = {ProfilerActivity::kCPU};
  Schedule schedule{};  // null: everything between start() and stop()
  // Called after the last active step of a cycle, and by stop() if a recording is under way.
  std::function<void(Profile&)> on_trace_ready{};
  bool record_shapes = false;
  bool profile_memory = false;
  bool with_flops = false;
};

struct KeyAveragesOptions {
  bool group_by_input_shape = false;
};

class Profile {
 public:
  // Throws kInvalidArgument for no activity, kNotImplemented for kCUDA.
  explicit Profile(ProfileOptions options = {});
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Throws kInvalidArgument if this or another Profile of the process is started, and what the
  // schedule throws.
  void start();
  // Throws kInvalidArgument if it is not started, and what on_trace_ready throws.
  void stop();
  // Ends the current step of the schedule and begins the next. With a schedule, each step is a span
  // ("ProfilerStep#3"). Throws what stop() throws, and what the schedule throws. If on_trace_ready
  // throws, the next step has begun.
  void step();
  // start(), function(), stop(). If the function throws, the recording ends and its exception goes
  // on; on_trace_ready is not called.
  template <typename Function>
  void run(Function&& function) {
    start();
    try {
      std::forward<Function>(function)();
    } catch (...) {
      drop();
      throw;
    }
    stop();
  }

  std::int64_t step_num() const noexcept { return step_num_; }
  // How many recordings were ready; in on_trace_ready, without this one.
  std::int64_t cycle() const noexcept { return cycle_; }

  // These return results of the last finished recording. They throw kInvalidArgument if there is
  // none, and for group_by_input_shape without record_shapes.
  Averages key_averages(const KeyAveragesOptions& options = {}) const;
  Breakdown breakdown() const;
  const Recording& recording() const;
  // Writes trace events for chrome://tracing or https://ui.perfetto.dev. Also throws kIo or
  // kNotFound, naming the file, if it cannot write the file.
  void export_chrome_trace(const std::string& path) const;

 private:
  ProfilerAction action_of(std::int64_t step) const;
  void enter(ProfilerAction action);
  void finish(bool is_ready);
  void drop() noexcept;
  void begin_step();
  void call_on_trace_ready();

  ProfileOptions options_;
  bool is_started_ = false;
  ProfilerAction action_ = ProfilerAction::kNone;
  std::int64_t step_num_ = 0;
  std::int64_t cycle_ = 0;
  std::optional<Span> step_;
  std::optional<Recording> ready_;
};

// Returns an on_trace_ready that writes one file per rank: FOLDER/rank0.trace.json, and in later
// cycles FOLDER/rank0.1.trace.json, ... It creates the folder, and throws kIo if it cannot write.
std::function<void(Profile&)> trace_handler(std::string folder);

}  // namespace dl::profiler
