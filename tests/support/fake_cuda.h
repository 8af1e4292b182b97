// A CUDA back-end for unit tests on machines without a GPU: device memory is host memory, and the
// CPU's kernels are CUDA's. What needs a GPU to be true (that kernels compute the right thing, that
// copies overlap) is not tested with it. Ranks of a test may be threads, each with a device.
//
// A stream is a queue of steps, each a function that is asked again until it says that it is done.
// With FakeWork::kAtOnce they run when they are given, and what a capture records runs at once,
// too, as the CPU's kernels do; a launch only counts. With kLater they run when a thread asks the
// runtime anything; a capture keeps what makes the steps, and each launch makes them anew.
//
// tests/host_device is another thing: it stands for NVIDIA's libraries below dlrun's CUDA module,
// of which this takes the place.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/device/cuda/module/module.h"

namespace dl::test {

using Step = std::function<bool()>;
using MakeStep = std::function<Step()>;

struct FakeStream {
  std::deque<Step> steps;
  void* captured_with = nullptr;  // the stream on which the capture began
  // Of a capture that began here: what makes its steps, and the communicators whose work it holds.
  std::vector<MakeStep> recorded;
  std::set<void*> held;
};
struct FakeGraph {
  std::vector<MakeStep> recorded;
  std::set<void*> held;
  int running = 0;  // steps of its launches
  bool is_destroyed = false;
};

enum class FakeWork : bool { kAtOnce, kLater };

class FakeRuntime final : public cuda::Runtime {
 public:
  explicit FakeRuntime(std::size_t capacity = std::size_t{1} << 40,
                       FakeWork work = FakeWork::kAtOnce)
      : capacity_(capacity), runs_at_once_(work == FakeWork::kAtOnce) {}
  ~FakeRuntime() override;

  // Tests read and set these; under the mutex if other threads use the runtime.
  std::recursive_mutex mutex;
  std::map<void*, std::size_t> blocks;
  std::set<void*> pinned;
  int pinned_for = -1;   // the device that the last of it was taken for
  std::set<void*> busy;  // streams that stand still until the host waits for them
  std::set<void*> lost;  // streams whose events are errors
  std::size_t copies = 0;
  std::size_t waits = 0;  // of the host
  std::size_t launches = 0;
  void* launched_on = nullptr;  // by the last
  std::set<FakeGraph*> graphs;  // that live
  std::size_t ended_streams = 0;
  std::string capture_error;         // what end_capture() breaks with
  std::size_t captured_queries = 0;  // of events that a capture recorded: CUDA would break it
  std::size_t used() const;
  std::size_t event_count() const { return events_.size(); }

  // Runs what can run.
  void pump();
  // What a capture leaves out.
  void push(void* stream, Step step);
  // What it records.
  void give(void* stream, const MakeStep& make);
  // Under the mutex.
  FakeStream& stream_of(void* handle) { return streams_[handle]; }
  // That the calling thread has adopted; -1: none.
  static int& device_of_thread();

  int device_count() override { return 2; }
  cuda::DeviceProperties properties(int device) override;
  cuda::MemoryInfo memory_info(int device) override;
  void check_device(int) override {}
  void adopt_device(int device) noexcept override { device_of_thread() = device; }
  void* allocate(int device, std::size_t bytes) override;
  void deallocate(int device, void* block) noexcept override;
  void* allocate_pinned(int device, std::size_t bytes) override;
  void deallocate_pinned(void* block) noexcept override;
  void copy_async(void* to, const void* from, std::size_t bytes, void* stream) override;
  void* make_stream(int device, bool high_priority) override;
  void destroy_stream(void* stream) noexcept override;
  void synchronize_stream(void* stream) override;
  void synchronize_device(int device) override;
  void* make_event(int device, bool timing) override;
  void destroy_event(void* event) noexcept override;
  void record_event(void* event, void* stream) override;
  bool query_event(void* event) override;
  void synchronize_event(void* event) override;
  void wait_event(void* stream, void* event) override;
  float elapsed_ms(void*, void*) override { return 1; }
  cuda::CaptureState capture_state(void* stream) override;
  void begin_capture(void* stream) override;
  void* end_capture(void* stream) override;
  void launch_graph(void* graph, void* stream) override;
  void destroy_graph(void* graph) noexcept override;

 private:
  struct Event {
    void* stream = nullptr;
    void* captured_with = nullptr;
    std::uint64_t recorded = 0;
    // Streams hold it: an event may go before its stream has come to it.
    std::shared_ptr<std::uint64_t> passed = std::make_shared<std::uint64_t>(0);
  };
  // Waits as the host does, until `is_over`.
  void wait(void* stream, const std::function<bool()>& is_over);

  const std::size_t capacity_;
  const bool runs_at_once_;
  std::map<void*, FakeStream> streams_;  // with those of a handle that a test made up
  std::set<void*> made_streams_;
  std::map<void*, Event> events_;
};

// Makes it what dl::cuda uses in this process, with the CPU's kernels; the same one at every call.
FakeRuntime& use_fake_cuda();

}  // namespace dl::test
