// Streams, events, captures and graphs.
#include "tests/host_device/stream.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "tests/host_device/kernel.h"
#include "tests/host_device/runtime.h"

namespace dl::host_device {
namespace {

// Never destroyed: a program may end without destroying its streams, and destroyed ones still run
// their work.
struct Registry {
  std::mutex mutex;
  std::set<cudaStream_t> streams;
  std::map<int, cudaStream_t> null_streams;
};
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

std::mutex& captures_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

// The null stream is the device's own. Streams here are all cudaStreamNonBlocking.
cudaStream_t resolve(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  const int device = this_thread().device;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().null_streams.find(device);
    if (found != registry().null_streams.end()) return found->second;
  }
  cudaStream_t made = new CUstream_st(device);
  const std::lock_guard lock(registry().mutex);
  return registry().null_streams.emplace(device, made).first->second;
}

// Under captures_mutex: adds a node, and counts it as the stream's.
void record(Capture& capture, cudaStream_t stream, Work work) {
  capture.nodes.push_back(std::move(work));
  capture.streams[stream][stream] = capture.nodes.size();
}

void merge(Seen& into, const Seen& from) {
  for (const auto& [stream, count] : from) into[stream] = std::max(into[stream], count);
}

}  // namespace

void Mark::pass() {
  const std::lock_guard lock(mutex);
  passed = true;
  when = std::chrono::steady_clock::now();
  passed_now.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex);
  passed_now.wait(lock, [&] { return passed; });
}

bool Mark::is_passed() {
  const std::lock_guard lock(mutex);
  return passed;
}

ThreadState& this_thread() noexcept {
  thread_local ThreadState state;
  return state;
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) this_thread().error = error;
  return error;
}

void remember(cudaError_t error) {
  answer(error);
}

bool is_forbidden() {
  const ThreadState& state = this_thread();
  if (state.mode == cudaStreamCaptureModeRelaxed) return false;
  const std::lock_guard lock(captures_mutex());
  bool any = false;
  for (const auto& capture : state.captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    capture->broken = true;
    any = true;
  }
  return any;
}

void drain(int device) {
  std::vector<cudaStream_t> all;
  {
    const std::lock_guard lock(registry().mutex);
    for (const cudaStream_t stream : registry().streams) {
      if (stream->device == device) all.push_back(stream);
    }
  }
  for (const cudaStream_t stream : all) stream->drain();
}

constinit std::atomic<long> work_count = 0;

cudaError_t enqueue(cudaStream_t given, std::function<void()> work) {
  ++work_count;
  const cudaStream_t stream = resolve(given);
  {
    const std::lock_guard lock(captures_mutex());
    if (Capture* const capture = stream->capture.get()) {
      if (capture->broken) return cudaErrorStreamCaptureInvalidated;
      record(*capture, stream, std::move(work));
      return cudaSuccess;
    }
  }
  stream->give(std::move(work));
  return cudaSuccess;
}

}  // namespace dl::host_device

using namespace dl::host_device;

long dl_host_device_work_count() {
  return work_count;
}

CUstream_st::CUstream_st(int number) : device(number) {
  const std::lock_guard lock(registry().mutex);
  registry().streams.insert(this);
  std::thread([this] { run(); }).detach();
}

void CUstream_st::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

void CUstream_st::give(Work work) {
  {
    const std::lock_guard lock(mutex_);
    given_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void CUstream_st::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return given_.empty() && !busy_; });
}

void CUstream_st::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !given_.empty(); });
    if (given_.empty()) return;
    Work work = std::move(given_.front());
    given_.pop_front();
    busy_ = true;
    lock.unlock();
    std::this_thread::yield();  // threads that did not wait go first
    work();
    work = nullptr;
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  if (flags != cudaStreamNonBlocking) return answer(cudaErrorNotSupported);
  *stream = new CUstream_st(this_thread().device);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->end();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t given) {
  const cudaStream_t stream = resolve(given);
  {
    const std::lock_guard lock(captures_mutex());
    if (stream->capture) {
      stream->capture->broken = true;
      return answer(cudaErrorStreamCaptureUnsupported);
    }
  }
  stream->drain();
  check_memory([] { return std::string("when a stream is waited for"); });
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (is_forbidden()) return answer(cudaErrorStreamCaptureUnsupported);
  drain(this_thread().device);
  check_memory([] { return std::string("when the device is waited for"); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t given) {
  const cudaStream_t stream = resolve(given);
  const std::scoped_lock lock(captures_mutex(), event->mutex);
  event->capture = stream->capture;
  if (event->capture) {
    if (event->capture->broken) return answer(cudaErrorStreamCaptureInvalidated);
    event->mark = nullptr;
    event->seen = event->capture->streams[stream];
    return cudaSuccess;
  }
  event->mark = std::make_shared<Mark>();
  stream->give([mark = event->mark] { mark->pass(); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t given, cudaEvent_t event, unsigned) {
  const cudaStream_t stream = resolve(given);
  const std::scoped_lock lock(captures_mutex(), event->mutex);
  if (event->capture) {
    if (stream->capture == nullptr) stream->capture = event->capture;
    if (stream->capture != event->capture) {
      stream->capture->broken = event->capture->broken = true;
      return answer(cudaErrorStreamCaptureMerge);
    }
    merge(event->capture->streams[stream], event->seen);
    return cudaSuccess;
  }
  if (stream->capture) {
    if (event->mark == nullptr) return cudaSuccess;
    stream->capture->broken = true;
    return answer(cudaErrorStreamCaptureIsolation);
  }
  if (event->mark != nullptr) stream->give([mark = event->mark] { mark->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (is_forbidden()) return answer(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(event->mutex);
  if (event->capture) return answer(cudaErrorCapturedEvent);
  if (event->mark == nullptr || event->mark->is_passed()) return cudaSuccess;
  return answer(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (is_forbidden()) return answer(cudaErrorStreamCaptureUnsupported);
  std::shared_ptr<Mark> mark;
  {
    const std::lock_guard lock(event->mutex);
    if (event->capture) return answer(cudaErrorCapturedEvent);
    mark = event->mark;
  }
  if (mark != nullptr) mark->wait();
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const std::scoped_lock lock(begin->mutex, end->mutex);
  if (!begin->timing || !end->timing || begin->mark == nullptr || end->mark == nullptr) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (!begin->mark->is_passed() || !end->mark->is_passed()) return answer(cudaErrorNotReady);
  *ms = std::chrono::duration<float, std::milli>(end->mark->when - begin->mark->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(captures_mutex());
  const Capture* const capture = resolve(stream)->capture.get();
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->broken  ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, this_thread().mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return answer(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(captures_mutex());
  if (stream->capture) return answer(cudaErrorIllegalState);
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->thread = std::this_thread::get_id();
  capture->mode = mode;
  capture->streams[stream];
  stream->capture = capture;
  this_thread().captures.push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::lock_guard lock(captures_mutex());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return answer(cudaErrorIllegalState);
  if (capture->origin != stream) return answer(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    capture->broken = true;
    return answer(cudaErrorStreamCaptureWrongThread);
  }
  bool joined = true;
  Seen& seen = capture->streams[stream];
  for (auto& [other, of_other] : capture->streams) {
    joined = joined && seen[other] >= of_other[other];
    other->capture = nullptr;
  }
  std::erase(this_thread().captures, capture);
  if (capture->broken) return answer(cudaErrorStreamCaptureInvalidated);
  if (!joined) return answer(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::make_shared<const Nodes>(std::move(capture->nodes))};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  *ready = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return answer(enqueue(stream, [nodes = graph->nodes] {
    for (const Work& node : *nodes) node();
  }));
}

}  // extern "C"
