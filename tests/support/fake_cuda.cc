#include "tests/support/fake_cuda.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/ops/dispatch/dispatch.h"

namespace dl::test {

FakeRuntime::~FakeRuntime() {
  for (const auto& [block, bytes] : blocks) std::free(block);
  for (void* const block : pinned) std::free(block);
  for (const auto& [event, what] : events_) delete static_cast<char*>(event);
  for (void* const stream : made_streams_) delete static_cast<char*>(stream);
  for (FakeGraph* const graph : graphs) delete graph;
}

void FakeRuntime::pump() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [handle, stream] : streams_) {
      while (!busy.contains(handle) && !stream.steps.empty() && stream.steps.front()()) {
        stream.steps.pop_front();
        moved = true;
      }
    }
  }
  std::erase_if(graphs, [](FakeGraph* graph) {
    if (!graph->is_destroyed || graph->running > 0) return false;
    delete graph;
    return true;
  });
}

void FakeRuntime::push(void* stream, Step step) {
  const std::lock_guard lock(mutex);
  FakeStream& to = stream_of(stream);
  if (to.captured_with == nullptr) to.steps.push_back(std::move(step));
  if (runs_at_once_) pump();
}

void FakeRuntime::give(void* stream, const MakeStep& make) {
  const std::lock_guard lock(mutex);
  FakeStream& to = stream_of(stream);
  if (to.captured_with == nullptr) return push(stream, make());
  runs_at_once_ ? static_cast<void>(make()())
                : stream_of(to.captured_with).recorded.push_back(make);
}

int& FakeRuntime::device_of_thread() {
  thread_local int device = -1;
  return device;
}

std::size_t FakeRuntime::used() const {
  std::size_t sum = 0;
  for (const auto& [block, bytes] : blocks) sum += bytes;
  return sum;
}

cuda::DeviceProperties FakeRuntime::properties(int device) {
  return {.name = "a fake",
          .uuid = "GPU-" + std::to_string(device),
          .major = 9,
          .total_memory = capacity_};
}

cuda::MemoryInfo FakeRuntime::memory_info(int) {
  const std::lock_guard lock(mutex);
  return {capacity_ - used(), capacity_};
}

void* FakeRuntime::allocate(int, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (used() + bytes > capacity_) return nullptr;
  void* const block = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  blocks.emplace(block, bytes);
  return block;
}

void FakeRuntime::deallocate(int, void* block) noexcept {
  const std::lock_guard lock(mutex);
  blocks.erase(block);
  std::free(block);
}

void* FakeRuntime::allocate_pinned(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  pinned_for = device;
  return *pinned.insert(std::aligned_alloc(64, (bytes + 63) / 64 * 64)).first;
}

void FakeRuntime::deallocate_pinned(void* block) noexcept {
  const std::lock_guard lock(mutex);
  pinned.erase(block);
  std::free(block);
}

void FakeRuntime::copy_async(void* to, const void* from, std::size_t bytes, void* stream) {
  const std::lock_guard lock(mutex);
  ++copies;
  give(stream, [=] {
    return [=] {
      std::memcpy(to, from, bytes);
      return true;
    };
  });
}

void* FakeRuntime::make_stream(int, bool) {
  const std::lock_guard lock(mutex);
  return *made_streams_.insert(new char(0)).first;
}

void FakeRuntime::destroy_stream(void* stream) noexcept {
  const std::lock_guard lock(mutex);
  streams_.erase(stream);
  made_streams_.erase(stream);
  delete static_cast<char*>(stream);
  ++ended_streams;
}

void FakeRuntime::wait(void* stream, const std::function<bool()>& is_over) {
  {
    const std::lock_guard lock(mutex);
    ++waits;
    busy.erase(stream);
  }
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      pump();
      if (is_over()) return;
    }
    ::usleep(20);  // a mutex goes to the thread that asks first, and that would be this one again
  }
}

void FakeRuntime::synchronize_stream(void* stream) {
  {
    const std::lock_guard lock(mutex);
    DL_CHECK(stream_of(stream).captured_with == nullptr, kInternal,
             "cudaStreamSynchronize: operation not permitted when stream is capturing "
             "(cudaErrorStreamCaptureUnsupported)");
  }
  wait(stream, [&] { return stream_of(stream).steps.empty(); });
}

void FakeRuntime::synchronize_device(int) {
  const std::lock_guard lock(mutex);
  ++waits;
  pump();
}

void* FakeRuntime::make_event(int, bool) {
  const std::lock_guard lock(mutex);
  void* const event = new char(0);
  events_[event] = {};
  return event;
}

void FakeRuntime::destroy_event(void* event) noexcept {
  const std::lock_guard lock(mutex);
  events_.erase(event);
  delete static_cast<char*>(event);
}

void FakeRuntime::record_event(void* event, void* stream) {
  const std::lock_guard lock(mutex);
  DL_CHECK(!lost.contains(stream), kInternal, "cudaEventRecord: the stream is lost");
  Event& it = events_.at(event);
  it.stream = stream;
  it.captured_with = stream_of(stream).captured_with;
  const std::uint64_t number = ++it.recorded;
  push(stream, [passed = it.passed, number] {
    *passed = std::max(*passed, number);
    return true;
  });
}

bool FakeRuntime::query_event(void* event) {
  const std::lock_guard lock(mutex);
  const Event& it = events_.at(event);
  if (it.captured_with != nullptr) ++captured_queries;
  DL_CHECK(it.captured_with == nullptr && !lost.contains(it.stream), kInternal,
           "cudaEventQuery: operation not permitted on an event last recorded in a capturing "
           "stream (cudaErrorCapturedEvent)");
  pump();
  return *it.passed == it.recorded;
}

void FakeRuntime::synchronize_event(void* event) {
  Event it;
  {
    const std::lock_guard lock(mutex);
    it = events_.at(event);
  }
  wait(it.stream, [&] { return *it.passed >= it.recorded; });
}

void FakeRuntime::wait_event(void* stream, void* event) {
  const std::lock_guard lock(mutex);
  const Event& it = events_.at(event);
  // A stream that waits for a capturing one is captured with it.
  if (it.captured_with != nullptr) stream_of(stream).captured_with = it.captured_with;
  push(stream, [passed = it.passed, number = it.recorded] { return *passed >= number; });
}

cuda::CaptureState FakeRuntime::capture_state(void* stream) {
  const std::lock_guard lock(mutex);
  return stream_of(stream).captured_with != nullptr ? cuda::CaptureState::kActive
                                                    : cuda::CaptureState::kNone;
}

void FakeRuntime::begin_capture(void* stream) {
  const std::lock_guard lock(mutex);
  stream_of(stream).captured_with = stream;
}

void* FakeRuntime::end_capture(void* stream) {
  const std::lock_guard lock(mutex);
  for (auto& [handle, each] : streams_) {
    if (each.captured_with == stream) each.captured_with = nullptr;
  }
  FakeStream& origin = stream_of(stream);
  auto graph = std::make_unique<FakeGraph>(
      FakeGraph{std::exchange(origin.recorded, {}), std::exchange(origin.held, {})});
  if (!capture_error.empty()) return nullptr;
  return *graphs.insert(graph.release()).first;
}

void FakeRuntime::launch_graph(void* graph, void* stream) {
  const std::lock_guard lock(mutex);
  launched_on = stream;
  ++launches;
  auto* const launched = static_cast<FakeGraph*>(graph);
  for (const MakeStep& make : launched->recorded) {
    ++launched->running;
    push(stream, [step = make(), launched] {
      const bool is_over = step();
      if (is_over) --launched->running;
      return is_over;
    });
  }
}

// CUDA returns at once, and keeps what the graph holds until its launches are over.
void FakeRuntime::destroy_graph(void* graph) noexcept {
  const std::lock_guard lock(mutex);
  static_cast<FakeGraph*>(graph)->is_destroyed = true;
  pump();
}

FakeRuntime& use_fake_cuda() {
  static FakeRuntime& runtime = []() -> FakeRuntime& {
    // Never destroyed: cached memory is in its books until the process ends.
    static auto* const made = new FakeRuntime;
    static std::array<AnyKernel, kOpCount> kernels;
    for (std::size_t i = 0; i < kOpCount; ++i) {
      kernels[i] = kernel_table().get(static_cast<Op>(i), DeviceType::kCPU);
    }
    static const cuda::Module module{
        .runtime = made, .kernels = kernels.data(), .kernels_abi = kernels_abi()};
    cuda::use_module(module);
    return *made;
  }();
  return runtime;
}

}  // namespace dl::test
