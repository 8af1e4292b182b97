#include "core/device/cuda/graph.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/base/error.h"
#include "core/base/mutex.h"

namespace dl::cuda {
namespace {

constinit thread_local Graph* graph_of_thread = nullptr;
constinit std::atomic<void (*)()> capture_bound = nullptr;

// All graphs of the process. Never destroyed: a graph may be a static object.
constinit Mutex registry_mutex;

std::vector<Graph*>& registry() {
  static auto* const graphs = new std::vector<Graph*>;
  return *graphs;
}

}  // namespace

Graph::Graph(Runtime& runtime) : runtime_(runtime) {
  const Lock lock(registry_mutex);
  registry().push_back(this);
}

Graph::~Graph() {
  if (captures_) {
    try {
      end();
    } catch (...) {  // the capture is abandoned anyway
    }
  }
  {
    const Lock lock(registry_mutex);
    std::erase(registry(), this);
  }
  const Lock lock(mutex_);
  destroy();
}

void Graph::begin(const Stream& stream) {
  DL_CHECK(graph_of_thread == nullptr, kInvalidArgument,
           "graph: this thread captures one already; end that first");
  DL_CHECK(runtime_.capture_state(stream.handle) == CaptureState::kNone, kInvalidArgument,
           "graph: the stream is being captured already");
  {
    const Lock lock(mutex_);
    DL_CHECK(ready_ == nullptr && !lost_, kInvalidArgument,
             "graph: it is captured already; make another one");
  }
  if (auto* const at_bound = capture_bound.load()) at_bound();
  runtime_.begin_capture(stream.handle);
  stream_ = stream;
  captures_ = true;
  graph_of_thread = this;
}

void Graph::end() {
  DL_CHECK(captures_ && graph_of_thread == this, kInvalidArgument,
           "graph: this thread does not capture it");
  std::exception_ptr failed;
  try {
    if (auto* const at_bound = capture_bound.load()) at_bound();
  } catch (...) {
    failed = std::current_exception();
  }
  captures_ = false;
  graph_of_thread = nullptr;
  void* const made = runtime_.end_capture(stream_.handle);
  if (failed) {
    if (made != nullptr) runtime_.destroy_graph(made);
    std::rethrow_exception(failed);
  }
  DL_CHECK(
      made != nullptr, kInternal,
      "the capture broke: something in it waited for the device, or left work on a stream that "
      "the captured one does not wait for");
  const Lock lock(mutex_);
  ready_ = made;
  if (!lost_) return;
  destroy();
  throw_error(ErrorKind::kAborted, "graph: something that it holds has gone while it was captured");
}

void Graph::launch(const Stream& stream) {
  DL_CHECK(runtime_.capture_state(stream.handle) == CaptureState::kNone, kInvalidArgument,
           "graph: the stream is being captured, and a launch within a capture cannot be watched");
  const Lock lock(mutex_);
  DL_CHECK(!lost_, kAborted, "graph: something that it holds has gone, and it cannot be launched");
  DL_CHECK(ready_ != nullptr, kInvalidArgument, "graph: nothing has been captured yet");
  std::size_t told = 0;
  std::exception_ptr failed;
  try {
    for (; told < holds_.size(); ++told) holds_[told].part->before_launch(stream);
    runtime_.launch_graph(ready_, stream.handle);
  } catch (...) {
    failed = std::current_exception();
  }
  while (told > 0) holds_[--told].part->after_launch(stream, failed);
  if (failed) std::rethrow_exception(failed);
}

void Graph::destroy() noexcept {
  if (void* const ready = std::exchange(ready_, nullptr)) runtime_.destroy_graph(ready);
}

void set_capture_bound(void (*at_bound)()) noexcept {
  capture_bound.store(at_bound);
}

bool capturing() noexcept {
  return graph_of_thread != nullptr;
}

void refuse_in_capture(const char* reason) {
  DL_CHECK(graph_of_thread == nullptr, kInvalidArgument, "{}", reason);
}

GraphPart* note_captured(const void* owner, const std::function<Ref<GraphPart>()>& make) {
  Graph* const graph = graph_of_thread;
  if (graph == nullptr) return nullptr;
  const Lock lock(graph->mutex_);
  const auto known = std::ranges::find(graph->holds_, owner, &Graph::Held::owner);
  if (known != graph->holds_.end()) return known->part.get();
  return graph->holds_.emplace_back(Graph::Held{owner, make()}).part.get();
}

void destroy_graphs_of(const void* owner) noexcept {
  const Lock lock(registry_mutex);
  for (Graph* const graph : registry()) {
    const Lock own(graph->mutex_);
    if (std::ranges::find(graph->holds_, owner, &Graph::Held::owner) == graph->holds_.end()) {
      continue;
    }
    graph->lost_ = true;
    graph->destroy();
  }
}

}  // namespace dl::cuda
