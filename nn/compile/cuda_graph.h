// CudaGraph: a function's work on a GPU, captured into a CUDA graph: dl::compile's backend for
// GPUs.
//
// The function runs on the host once, in the capture, which computes nothing. A launch computes,
// and does to gradients on the host what the function did.
//
// What outlives a launch is what the allocator has still in use at the end of the capture: results,
// which the caller copies after each launch; gradients, which have memory of the graph's own if
// others share the pool (OutlivingMemory); and what else the function keeps. If there is any of the
// last kind, the older graphs of the pool would write over it, and are retired.
//
// Ownership: holds the graph with its memory, its results and the gradients that it makes.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/cuda/graph.h"
#include "core/device/stream.h"
#include "core/memory/cuda/caching_allocator.h"
#include "core/memory/storage.h"
#include "core/tensor/tensor.h"
#include "nn/compile/graph_pool.h"

namespace dl::detail {

// Hears what the host does in a function whose work is captured now, or in a later call.
class GraphWatch final : public ThreadWatch {
 public:
  GraphWatch() noexcept { thread_watch = this; }
  ~GraphWatch() { thread_watch = nullptr; }
  GraphWatch(const GraphWatch&) = delete;
  GraphWatch& operator=(const GraphWatch&) = delete;

  void made(const Storage&) override {}
  void freed(const Storage&) noexcept override {}
  void accessed(const Storage&, const std::source_location*) override {}
  void unrepeatable(std::string_view what, RepeatedBy by) override;
  void changed(std::string_view what, std::function<void()> again) override;
  void needs(const void* object, std::function<bool()> condition,
             std::function<void()> restore) override;
  void settled(const void* object) override;

  // What the capture has found.
  std::vector<std::function<void()>> host_steps;
  std::vector<std::function<bool()>> conditions;
  std::vector<std::function<void()>> restores;
  bool has_backward = false;
  std::string refused;  // why launches would not do the same; empty: they do

 private:
  std::set<const void*> settled_;
};

// Why a function with this result cannot be repeated; empty: it can.
std::string obstacle_in_result(std::size_t i, const Tensor& result, bool has_backward);

class CudaGraph {
 public:
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  // Captures function(inputs), which reads the inputs in each launch. Throws what the function
  // throws, and kInvalidArgument for what launches cannot do again.
  CudaGraph(Device device, std::span<const Tensor> inputs, const Function& function,
            Ref<GraphPool> pool);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  GraphPool& pool() const noexcept { return *pool_; }
  // It must not be launched again: another graph keeps values in its memory.
  void retire() noexcept { is_retired_ = true; }
  bool is_retired() const noexcept { return is_retired_; }
  // Whether the function keeps tensors beside results and gradients.
  bool keeps_tensors() const noexcept { return keeps_tensors_; }
  // Whether what the host found in the capture still holds, such as the memory of gradients.
  bool can_run() const;
  // Gives gradients back their state from before the capture, because no launch follows.
  void abandon();
  // On the device's current stream. Returns the results, which the next launch writes again.
  const std::vector<Tensor>& launch();

 private:
  // The memory of what outlives launches, if other graphs compute in the pool.
  class OwnMemory {
   public:
    explicit OwnMemory(int device) noexcept : device_(device) {}
    ~OwnMemory();
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;
    cuda::PoolId make();

   private:
    int device_;
    cuda::PoolId id_ = 0;
  };

  bool has_left_tensors() const;

  const Device device_;
  const Ref<GraphPool> pool_;
  OwnMemory own_;
  bool is_retired_ = false;
  bool keeps_tensors_ = false;
  std::vector<Tensor> results_;
  std::vector<std::function<void()>> host_steps_;
  std::vector<std::function<bool()>> conditions_;
  std::vector<std::function<void()>> restores_;  // until the first launch
  cuda::Graph graph_;                            // destroyed before the memory that it uses
};

}  // namespace dl::detail
