// Graph: a stream's work, captured once and launched as a whole many times.
//
//     Graph graph(runtime());
//     graph.begin(stream);
//     ...                    // what this thread gives `stream`, and streams that wait for it
//     graph.end();
//     graph.launch(stream);
//
// A capture runs nothing: nothing can be waited for, and values that the host computes or draws in
// it are the same in every launch. Calls for which this is wrong check capturing() and refuse. A
// graph may contain work of other owners (a communicator's), which must outlive the graph: they
// announce it with note_captured(), hear of each launch through their GraphPart, and end all such
// graphs with destroy_graphs_of(). Memory that the graph's work uses belongs to the code that
// captured it.
//
// Thread-safety: begin() and end() belong on one thread; launch() on one at a time;
// destroy_graphs_of() may be called by any thread at any time, but waits for a launch that is being
// given to the device.
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "core/base/lifetime/ref.h"
#include "core/device/cuda/module/runtime.h"
#include "core/device/stream.h"

namespace dl::cuda {

// One owner's work in a graph. Its functions are called by the thread that launches the graph, one
// launch at a time, and never after destroy_graphs_of(owner) has returned.
class GraphPart : public RefCounted {
 public:
  // The stream is about to get the launch. What this throws keeps it from that.
  virtual void before_launch(const Stream& stream) = 0;
  // It has got it, or `failed` says why not.
  virtual void after_launch(const Stream& stream, const std::exception_ptr& failed) noexcept = 0;
};

class Graph {
 public:
  explicit Graph(Runtime& runtime);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Breaks off a capture under way.
  ~Graph();

  // Throws kInvalidArgument where this thread or the stream captures already.
  void begin(const Stream& stream);
  // The stream is captured no more, whether this throws or not: kInternal where the capture broke,
  // kAborted where something that it holds has gone meanwhile.
  void end();
  // Throws kAborted where destroy_graphs_of() has been here, what a part of it throws, and
  // kInvalidArgument for a stream that is being captured.
  void launch(const Stream& stream);

 private:
  friend GraphPart* note_captured(const void* owner, const std::function<Ref<GraphPart>()>& make);
  friend void destroy_graphs_of(const void* owner) noexcept;
  struct Held {
    const void* owner;
    Ref<GraphPart> part;
  };
  void destroy() noexcept;

  Runtime& runtime_;
  Stream stream_;  // while it is captured
  bool captures_ = false;
  std::mutex mutex_;
  void* ready_ = nullptr;  // what the runtime made of it
  bool lost_ = false;      // destroyed from outside
  std::vector<Held> holds_{};
};

// What every capture calls before it begins and, while capturing() is still true, before it ends:
// for work that would otherwise be done later, and be missing in the graph. One function for the
// process.
void set_capture_bound(void (*at_bound)()) noexcept;

// Whether a Graph captures what this thread does now.
bool capturing() noexcept;
// Throws kInvalidArgument with this reason where one does.
void refuse_in_capture(const char* reason);

// What this thread's capture records holds work of `owner`: its part of that graph, which `make`
// makes at the first call. Null where this thread captures nothing, or not into a Graph. To be
// called before the work is given, so that an owner that ends meanwhile finds the graph.
GraphPart* note_captured(const void* owner, const std::function<Ref<GraphPart>()>& make);
// Destroys all graphs that do; their launches throw from now on.
void destroy_graphs_of(const void* owner) noexcept;

}  // namespace dl::cuda
