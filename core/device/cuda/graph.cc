#include "core/device/cuda/graph.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/base/error.h"
#include "core/base/mutex.h"

namespace dl::cuda {
namespace {

constinit thread_local Graph* graph_of_thread = nullptr;
constinit thread_local std::vector<PeersWatch::Found>* peers_of_thread = nullptr;
constinit std::atomic<void (*)()> capture_hook = nullptr;

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
  if (is_capturing_) {
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
    DL_CHECK(executable_ == nullptr && !is_destroyed_, kInvalidArgument,
             "graph: it is captured already; make another one");
  }
  if (auto* const hook = capture_hook.load()) hook();
  runtime_.begin_capture(stream.handle);
  stream_ = stream;
  is_capturing_ = true;
  graph_of_thread = this;
}

void Graph::end() {
  DL_CHECK(is_capturing_ && graph_of_thread == this, kInvalidArgument,
           "graph: this thread does not capture it");
  std::exception_ptr failed;
  try {
    if (auto* const hook = capture_hook.load()) hook();
  } catch (...) {
    failed = std::current_exception();
  }
  is_capturing_ = false;
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
  executable_ = made;
  if (!is_destroyed_) return;
  destroy();
  throw_error(ErrorKind::kAborted,
              "graph: an object whose work it contains was destroyed during the capture");
}

void Graph::launch(const Stream& stream) {
  DL_CHECK(runtime_.capture_state(stream.handle) == CaptureState::kNone, kInvalidArgument,
           "graph: the stream is being captured, and a launch within a capture cannot be watched");
  const Lock lock(mutex_);
  DL_CHECK(
      !is_destroyed_, kAborted,
      "graph: an object whose work it contains (a communicator, an optimizer) was destroyed, so "
      "it cannot be launched");
  DL_CHECK(executable_ != nullptr, kInvalidArgument, "graph: nothing has been captured yet");
  std::size_t begun = 0;
  std::exception_ptr failed;
  try {
    for (; begun < parts_.size(); ++begun) parts_[begun].part->before_launch(stream);
    runtime_.launch_graph(executable_, stream.handle);
  } catch (...) {
    failed = std::current_exception();
  }
  while (begun > 0) parts_[--begun].part->after_launch(stream, failed);
  if (failed) std::rethrow_exception(failed);
}

void Graph::destroy() noexcept {
  if (void* const executable = std::exchange(executable_, nullptr))
    runtime_.destroy_graph(executable);
}

void set_capture_hook(void (*hook)()) noexcept {
  capture_hook.store(hook);
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
  const auto known = std::ranges::find(graph->parts_, owner, &Graph::OwnedPart::owner);
  if (known != graph->parts_.end()) return known->part.get();
  return graph->parts_.emplace_back(Graph::OwnedPart{owner, make()}).part.get();
}

PeersWatch::PeersWatch(std::vector<Found>& found) noexcept {
  peers_of_thread = &found;
}

PeersWatch::~PeersWatch() {
  peers_of_thread = nullptr;
}

void note_peers(const void* group, const std::function<Ref<GraphPeers>()>& make) {
  if (peers_of_thread == nullptr) return;
  if (std::ranges::find(*peers_of_thread, group, &PeersWatch::Found::group) !=
      peers_of_thread->end()) {
    return;
  }
  peers_of_thread->push_back({group, make()});
}

void destroy_graphs_of(const void* owner) noexcept {
  const Lock lock(registry_mutex);
  for (Graph* const graph : registry()) {
    const Lock own(graph->mutex_);
    if (std::ranges::find(graph->parts_, owner, &Graph::OwnedPart::owner) == graph->parts_.end()) {
      continue;
    }
    graph->is_destroyed_ = true;
    graph->destroy();
  }
}

}  // namespace dl::cuda
