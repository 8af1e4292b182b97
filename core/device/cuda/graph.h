// Graph: a stream's work, captured once and launched as a whole many times.
//
//     Graph graph(runtime());
//     graph.begin(stream);
//     ...  // work on `stream`, and on streams that wait for it
//     graph.end();
//     graph.launch(stream);
//
// A capture runs nothing: it cannot be waited for, and values that the host computes or draws are
// the same in every launch. Calls for which that would be wrong check capturing() and throw.
//
// A graph may contain work of other owners, for example of a communicator or an optimizer. An owner
// registers its work with note_captured(), and each launch calls the owner's GraphPart. Before an
// owner ends, it destroys the graphs that contain its work with destroy_graphs_of(). The code that
// captured the graph has to keep the memory that the graph's work uses.
//
// Thread-safety: the same thread calls begin() and end(). One thread at a time may call launch().
// Any thread may call destroy_graphs_of(), which waits for a launch that is being submitted.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "core/base/lifetime/ref.h"
#include "core/base/mutex.h"
#include "core/device/cuda/module/runtime.h"
#include "core/device/stream.h"

namespace dl::cuda {

// One owner's work in a graph. Its functions are called by the thread that launches the graph, one
// launch at a time, and never after destroy_graphs_of(owner) has returned.
class GraphPart : public RefCounted {
 public:
  // Called before the launch; an exception cancels it.
  virtual void before_launch(const Stream& stream) = 0;
  // Called after the launch; `failed` is the reason if the launch failed, else null.
  virtual void after_launch(const Stream& stream, const std::exception_ptr& failed) noexcept = 0;
};

class Graph {
 public:
  explicit Graph(Runtime& runtime);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Abandons a capture that has not ended.
  ~Graph();

  // Throws kInvalidArgument if this thread or the stream is capturing already, or if the graph has
  // been captured before.
  void begin(const Stream& stream);
  // Ends the capture, even if this function throws. Throws kInternal if the capture was
  // invalidated, kAborted if an owner of captured work has ended meanwhile.
  void end();
  // Throws kAborted if destroy_graphs_of() has destroyed the graph, kInvalidArgument if the stream
  // is being captured or if nothing has been captured, and what a GraphPart throws.
  void launch(const Stream& stream);

 private:
  friend GraphPart* note_captured(const void* owner, const std::function<Ref<GraphPart>()>& make);
  friend void destroy_graphs_of(const void* owner) noexcept;
  struct OwnedPart {
    const void* owner;
    Ref<GraphPart> part;
  };
  void destroy() noexcept DL_REQUIRES(mutex_);

  Runtime& runtime_;
  Stream stream_;  // while it is captured
  bool is_capturing_ = false;
  Mutex mutex_;
  void* executable_ DL_GUARDED_BY(mutex_) = nullptr;  // the runtime's executable graph
  bool is_destroyed_ DL_GUARDED_BY(mutex_) = false;   // destroyed by destroy_graphs_of()
  std::vector<OwnedPart> parts_ DL_GUARDED_BY(mutex_){};
};

// Sets the function that every capture calls before it begins and, while capturing() is still true,
// before it ends. Before the begin, the function submits deferred work that the graph must not
// contain; before the end, deferred work that the graph must contain. The process has one such
// function.
void set_capture_hook(void (*hook)()) noexcept;

// True if a Graph captures this thread's work.
bool capturing() noexcept;
// Throws kInvalidArgument with this reason if capturing().
void refuse_in_capture(const char* reason);

// The ranks of a group that calls operations on the device. All of them launch graphs with these
// operations, or none does.
class GraphPeers : public RefCounted {
 public:
  virtual int rank() const noexcept = 0;
  // Collective: the reason of the first rank that has one, with its number; empty if none has.
  virtual std::string first_reason(const std::string& why) = 0;
  // Throws the group's error.
  virtual void check() const = 0;
};

// Finds the groups that this thread calls while it lives; one a thread.
class PeersWatch {
 public:
  struct Found {
    const void* group;
    Ref<GraphPeers> peers;
  };
  // Adds to `found`.
  explicit PeersWatch(std::vector<Found>& found) noexcept;
  ~PeersWatch();
  PeersWatch(const PeersWatch&) = delete;
  PeersWatch& operator=(const PeersWatch&) = delete;
};
// For groups, which call it with each operation on a device; `make` runs at a watch's first.
void note_peers(const void* group, const std::function<Ref<GraphPeers>()>& make);

// Registers `owner`'s work in the graph that this thread captures. Returns the owner's GraphPart,
// which `make` makes at the first call; null if this thread captures no graph. Call it before you
// submit the work, so that destroy_graphs_of() finds the graph if the owner ends in between.
GraphPart* note_captured(const void* owner, const std::function<Ref<GraphPart>()>& make);
// Destroys the executable graph of every Graph that contains work of `owner`. Their launch() then
// throws kAborted.
void destroy_graphs_of(const void* owner) noexcept;

}  // namespace dl::cuda
