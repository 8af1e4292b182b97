// A CUDA back-end for unit tests on machines without a GPU: device memory is host memory, work is
// done at once, and the CPU's kernels are CUDA's. What needs a GPU to be true (that kernels compute
// the right thing, that copies overlap) is not tested with it. A capture, of its stream and of
// those that wait for it, does at once, too, what it records, and a launch only counts. Ranks of a
// test may be threads, each with a device of its own.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/cuda/module/module.h"

namespace dl::test {

class FakeRuntime final : public cuda::Runtime {
 public:
  explicit FakeRuntime(std::size_t capacity = std::size_t{1} << 40) : capacity_(capacity) {}
  ~FakeRuntime() override {
    for (const auto& [block, bytes] : blocks) std::free(block);
    for (void* const block : pinned) std::free(block);
    for (const auto& [event, what] : events_) delete static_cast<char*>(event);
    for (void* const stream : streams_) delete static_cast<char*>(stream);
  }

  // What tests look at and set.
  std::map<void*, std::size_t> blocks;
  std::set<void*> pinned;
  int pinned_for = -1;   // the device that the last of it was taken for
  std::set<void*> busy;  // streams whose events do not pass
  std::set<void*> lost;  // streams that no event can be recorded in any more
  std::size_t copies = 0;
  std::size_t waits = 0;  // of the host
  std::size_t launches = 0;
  void* launched_on = nullptr;  // by the last
  std::size_t graphs = 0;       // that live
  std::size_t ended_streams = 0;
  std::string capture_error;  // what end_capture() breaks with
  std::size_t used() const {
    std::size_t sum = 0;
    for (const auto& [block, bytes] : blocks) sum += bytes;
    return sum;
  }

  int device_count() override { return 2; }
  cuda::DeviceProperties properties(int) override {
    return {.name = "a fake", .uuid = "GPU-0", .major = 9, .total_memory = capacity_};
  }
  cuda::MemoryInfo memory_info(int) override {
    const std::lock_guard lock(mutex_);
    return {capacity_ - used(), capacity_};
  }
  void check_device(int) override {}
  void adopt_device(int) noexcept override {}

  void* allocate(int, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (used() + bytes > capacity_) return nullptr;
    void* const block = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    blocks.emplace(block, bytes);
    return block;
  }
  void deallocate(int, void* block) noexcept override {
    const std::lock_guard lock(mutex_);
    blocks.erase(block);
    std::free(block);
  }
  void* allocate_pinned(int device, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    pinned_for = device;
    return *pinned.insert(std::aligned_alloc(64, (bytes + 63) / 64 * 64)).first;
  }
  void deallocate_pinned(void* block) noexcept override {
    const std::lock_guard lock(mutex_);
    pinned.erase(block);
    std::free(block);
  }
  void copy_async(void* to, const void* from, std::size_t bytes, void*) override {
    const std::lock_guard lock(mutex_);
    ++copies;
    std::memcpy(to, from, bytes);
  }

  void* make_stream(int, bool) override {
    const std::lock_guard lock(mutex_);
    return *streams_.insert(new char(0)).first;
  }
  void destroy_stream(void* stream) noexcept override {
    const std::lock_guard lock(mutex_);
    streams_.erase(stream);
    delete static_cast<char*>(stream);
    ++ended_streams;
  }
  void synchronize_stream(void* stream) override {
    const std::lock_guard lock(mutex_);
    DL_CHECK(!capturing_.contains(stream), kInternal,
             "cudaStreamSynchronize: operation not permitted when stream is capturing "
             "(cudaErrorStreamCaptureUnsupported)");
    ++waits;
  }
  void synchronize_device(int) override {
    const std::lock_guard lock(mutex_);
    ++waits;
  }

  void* make_event(int, bool) override {
    const std::lock_guard lock(mutex_);
    void* const event = new char(0);
    events_[event] = {};
    return event;
  }
  void destroy_event(void* event) noexcept override {
    const std::lock_guard lock(mutex_);
    events_.erase(event);
    delete static_cast<char*>(event);
  }
  void record_event(void* event, void* stream) override {
    const std::lock_guard lock(mutex_);
    DL_CHECK(!lost.contains(stream), kInternal, "cudaEventRecord: the stream is lost");
    const auto captured = capturing_.find(stream);
    events_.at(event) = {stream, captured == capturing_.end() ? nullptr : captured->second};
  }
  bool query_event(void* event) override {
    const std::lock_guard lock(mutex_);
    const Recorded& what = events_.at(event);
    DL_CHECK(what.captured_with == nullptr && !lost.contains(what.stream), kInternal,
             "cudaEventQuery: operation not permitted on an event last recorded in a capturing "
             "stream (cudaErrorCapturedEvent)");
    return !busy.contains(what.stream);
  }
  void synchronize_event(void* event) override {
    const std::lock_guard lock(mutex_);
    ++waits;
    busy.erase(events_.at(event).stream);
  }
  void wait_event(void* stream, void* event) override {
    const std::lock_guard lock(mutex_);
    if (void* const origin = events_.at(event).captured_with) capturing_[stream] = origin;
  }
  float elapsed_ms(void*, void*) override { return 1; }
  std::size_t event_count() const { return events_.size(); }

  cuda::CaptureState capture_state(void* stream) override {
    const std::lock_guard lock(mutex_);
    return capturing_.contains(stream) ? cuda::CaptureState::kActive : cuda::CaptureState::kNone;
  }
  void begin_capture(void* stream) override {
    const std::lock_guard lock(mutex_);
    capturing_[stream] = stream;
  }
  void* end_capture(void* stream) override {
    const std::lock_guard lock(mutex_);
    std::erase_if(capturing_, [stream](const auto& each) { return each.second == stream; });
    if (!capture_error.empty()) return nullptr;
    ++graphs;
    return new char(0);
  }
  void launch_graph(void*, void* stream) override {
    const std::lock_guard lock(mutex_);
    launched_on = stream;
    ++launches;
  }
  void destroy_graph(void* graph) noexcept override {
    const std::lock_guard lock(mutex_);
    --graphs;
    delete static_cast<char*>(graph);
  }

 private:
  std::mutex mutex_;
  std::size_t capacity_;
  std::set<void*> streams_;
  struct Recorded {
    void* stream = nullptr;
    void* captured_with = nullptr;  // the stream on which the capture began
  };
  std::map<void*, Recorded> events_;
  std::map<void*, void*> capturing_;  // with the stream on which it began
};

// Makes it what dl::cuda uses in this process, with the CPU's kernels; the same one at every call.
FakeRuntime& use_fake_cuda();

}  // namespace dl::test
