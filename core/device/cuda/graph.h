// Graph: a stream's work, captured once and launched as a whole many times.
//
//     Graph graph(runtime());
//     graph.begin(stream);
//     ...                    // what this thread gives `stream`, and streams that wait for it
//     graph.end();
//     graph.launch(stream);
//
// A capture runs nothing: nothing can be waited for, and what the host decides or draws in it is
// the same in every launch. Calls that know better ask capturing() and refuse. A graph may hold
// work of others, a communicator's for one, which must not go before the graph: they say so with
// note_captured(), and end all such graphs with destroy_graphs_of(). What the graph's work uses
// belongs to whoever captured it.
//
// Thread-safety: begin() and end() belong on one thread; launch() on one at a time;
// destroy_graphs_of() may be called by any thread at any time.
#pragma once

#include <mutex>
#include <vector>

#include "core/device/cuda/runtime.h"
#include "core/device/stream.h"

namespace dl::cuda {

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
  // Throws kAborted where destroy_graphs_of() has been here.
  void launch(const Stream& stream);

 private:
  friend void note_captured(const void* owner);
  friend void destroy_graphs_of(const void* owner) noexcept;
  void destroy() noexcept;

  Runtime& runtime_;
  Stream stream_;  // while it is captured
  bool captures_ = false;
  std::mutex mutex_;
  void* ready_ = nullptr;             // what the runtime made of it
  bool lost_ = false;                 // destroyed from outside
  std::vector<const void*> holds_{};  // registry's mutex
};

// Whether a Graph captures what this thread does now.
bool capturing() noexcept;
// Throws kInvalidArgument with this reason where one does.
void refuse_in_capture(const char* reason);

// What this thread's capture records holds work of `owner`; nothing where there is none.
void note_captured(const void* owner);
// Destroys all graphs that do; their launches throw from now on.
void destroy_graphs_of(const void* owner) noexcept;

}  // namespace dl::cuda
