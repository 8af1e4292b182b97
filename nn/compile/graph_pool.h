// GraphPool: the memory of a device in which captured CUDA graphs compute that never run at once.
//
// Graphs share the memory of what they compute on the way. What outlives a launch needs other
// memory. The caller copies results behind each launch. Gradients are copied into memory of their
// graph alone (cuda::OutlivingMemory), unless that graph is the pool's first. A graph whose
// function keeps other tensors gets the pool for itself (leave_to()).
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/lifetime/ref.h"
#include "core/device/cuda/cuda.h"
#include "core/device/stream.h"
#include "core/memory/cuda/caching_allocator.h"

namespace dl::detail {

class CudaGraph;

// The memory of graphs on one device.
class GraphPool final : public RefCounted {
 public:
  explicit GraphPool(int device);

  // For one call of a function: its launch and the copies around it come after those of the last
  // call.
  class Turn {
   public:
    Turn(GraphPool& pool, const Stream& stream);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    GraphPool& pool_;
    Stream stream_;
  };

  void add(CudaGraph& graph) { graphs_.push_back(&graph); }
  void remove(const CudaGraph& graph) { std::erase(graphs_, &graph); }
  bool has_graphs() const noexcept { return !graphs_.empty(); }
  // Only this graph may be launched from now on, and no other one is captured here.
  void leave_to(const CudaGraph& graph);
  bool is_closed() const noexcept { return is_closed_; }

  int device() const noexcept { return device_; }
  cuda::PoolId id() const noexcept { return id_; }
  // Captures are on this stream, because the allocator reuses a stream's blocks on that stream.
  const Stream& stream() const noexcept { return stream_.get(); }

 private:
  ~GraphPool() override;

  const int device_;
  cuda::OwnedStream stream_;
  cuda::Event last_;  // behind the last call
  std::optional<Stream> used_on_{};
  cuda::PoolId id_;
  std::vector<CudaGraph*> graphs_;
  bool is_closed_ = false;
};

// A GraphPool for each device that has graphs.
class GraphPools final : public RefCounted {
 public:
  Ref<GraphPool> on(int device);

 private:
  std::vector<Ref<GraphPool>> open_;
};

}  // namespace dl::detail
