#include "nn/compile/graph_pool.h"

#include "core/base/error.h"
#include "core/memory/cuda/cuda_memory.h"
#include "nn/compile/compile.h"
#include "nn/compile/cuda_graph.h"

namespace dl::detail {

GraphPool::GraphPool(int device)
    : device_(device), stream_(device), last_(device), id_(cuda::allocator(device).make_pool()) {}

GraphPool::~GraphPool() {
  cuda::allocator(device_).release_pool(id_);
}

GraphPool::Turn::Turn(GraphPool& pool, const Stream& stream) : pool_(pool), stream_(stream) {
  if (pool.used_on_ && pool.used_on_->handle != stream.handle) pool.last_.wait(stream);
}

GraphPool::Turn::~Turn() {
  try {
    pool_.last_.record(stream_);
    pool_.used_on_ = stream_;
  } catch (const Error&) {  // the device is lost
  }
}

void GraphPool::leave_to(const CudaGraph& graph) {
  is_closed_ = true;
  for (CudaGraph* const each : graphs_) {
    if (each != &graph) each->retire();
  }
}

Ref<GraphPool> GraphPools::on(int device) {
  std::erase_if(open_, [](const Ref<GraphPool>& pool) { return pool->is_closed(); });
  for (const Ref<GraphPool>& pool : open_) {
    if (pool->device() == device) return pool;
  }
  return open_.emplace_back(make_ref<GraphPool>(device));
}

}  // namespace dl::detail

namespace dl::compiler {

GraphMemory::GraphMemory() : pools_(make_ref<detail::GraphPools>()) {}
GraphMemory::GraphMemory(const GraphMemory&) = default;
GraphMemory& GraphMemory::operator=(const GraphMemory&) = default;
GraphMemory::~GraphMemory() = default;

}  // namespace dl::compiler
